/* For processors whose registers take more room than a user-mode kernel has for them.
 *
 * A user-mode kernel reads and sets the extended registers of its processes by ptrace, in a buffer
 * of a fixed size. On processors with AMX the state is 11,008 bytes; the running kernel takes a
 * shorter one for none (kernel arch/x86/kernel/fpu/regset.c, xstateregs_set). Preloaded, this gives
 * it a buffer that is large enough: of what is read as much as fits is handed on, and what is set
 * is laid over the state that is there.
 *
 * No symbol is newer than glibc 2.14, as the kernels come with libraries of their own.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define ROOM 65536

/* not on the stack: a thread of the kernel has 16 KiB of it */
static __thread unsigned char state[ROOM]
	__attribute__((aligned(64), tls_model("initial-exec")));

static long call(long request, pid_t pid, void *address, void *data)
{
	return syscall(SYS_ptrace, request, pid, address, data);
}

/* The state of a process; its length in bytes, or -1. */
static long read_state(pid_t pid)
{
	struct iovec all = { state, ROOM };

	if (call(PTRACE_GETREGSET, pid, (void *)NT_X86_XSTATE, &all) < 0)
		return -1;
	return all.iov_len;
}

static long get(pid_t pid, struct iovec *given)
{
	long length = read_state(pid);

	if (length < 0)
		return -1;
	if (given->iov_len > (size_t)length)
		given->iov_len = length;
	memcpy(given->iov_base, state, given->iov_len);
	return 0;
}

static long set(pid_t pid, struct iovec *given)
{
	long length = read_state(pid);
	struct iovec all = { state, length };

	if (length < 0)
		return -1;
	if (given->iov_len >= (size_t)length)
		return call(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, given);
	memcpy(state, given->iov_base, given->iov_len);
	return call(PTRACE_SETREGSET, pid, (void *)NT_X86_XSTATE, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list arguments;
	long word, done;
	pid_t pid;
	void *address, *data;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (request == PTRACE_GETREGSET && address == (void *)NT_X86_XSTATE)
		return get(pid, data);
	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
		return set(pid, data);
	if (request != PTRACE_PEEKTEXT && request != PTRACE_PEEKDATA && request != PTRACE_PEEKUSER)
		return call(request, pid, address, data);
	done = call(request, pid, address, &word); /* the C library gives the word itself */
	return done < 0 ? done : word;
}
