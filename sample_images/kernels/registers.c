/* For processors whose registers take more room than a user-mode kernel has for them.
 *
 * A user-mode kernel reads and sets the extended registers of its processes by ptrace, in a buffer
 * of a fixed size. On processors with AMX the state is 11,008 bytes; the running kernel takes a
 * shorter one for none (kernel arch/x86/kernel/fpu/regset.c, xstateregs_set). Preloaded, this gives
 * it a buffer that is large enough: of what is read as much as fits is handed on, and what is set
 * is laid over the state that is there.
 *
 * It includes no header and needs nothing of the compiler's library, so that a small compiler
 * builds it, and no symbol newer than glibc 2.14, as the kernels come with libraries of their own.
 * On x86-64 a variadic function takes such arguments as any other does.
 */
enum {
	PEEKTEXT = 1, PEEKDATA, PEEKUSER, /* linux/ptrace.h */
	GETREGSET = 0x4204,
	SETREGSET = 0x4205,
	X86_XSTATE = 0x202, /* elf.h */
	SYS_PTRACE = 101,
	ROOM = 65536
};

struct piece { /* struct iovec */
	void *base;
	unsigned long length;
};

long syscall(long number, ...);
void *memcpy(void *target, const void *source, unsigned long length);

/* One thread traces all processes. Not on the stack: a thread of the kernel has 16 KiB of it. */
static unsigned char state[ROOM] __attribute__((aligned(64)));

static long call(long request, long pid, void *address, void *data)
{
	return syscall(SYS_PTRACE, request, pid, address, data);
}

/* The state of a process; its length in bytes, or -1. */
static long read_state(long pid)
{
	struct piece all = { state, ROOM };

	if (call(GETREGSET, pid, (void *)X86_XSTATE, &all) < 0)
		return -1;
	return all.length;
}

static long get(long pid, struct piece *given)
{
	long length = read_state(pid);

	if (length < 0)
		return -1;
	if (given->length > (unsigned long)length)
		given->length = length;
	memcpy(given->base, state, given->length);
	return 0;
}

static long set(long pid, struct piece *given)
{
	long length = read_state(pid);
	struct piece all = { state, length };

	if (length < 0)
		return -1;
	if (given->length >= (unsigned long)length)
		return call(SETREGSET, pid, (void *)X86_XSTATE, given);
	memcpy(state, given->base, given->length);
	return call(SETREGSET, pid, (void *)X86_XSTATE, &all);
}

long ptrace(int request, int pid, void *address, void *data)
{
	long word, done;

	if (request == GETREGSET && address == (void *)X86_XSTATE)
		return get(pid, data);
	if (request == SETREGSET && address == (void *)X86_XSTATE)
		return set(pid, data);
	if (request != PEEKTEXT && request != PEEKDATA && request != PEEKUSER)
		return call(request, pid, address, data);
	done = call(request, pid, address, &word); /* the C library gives the word itself */
	return done < 0 ? done : word;
}
