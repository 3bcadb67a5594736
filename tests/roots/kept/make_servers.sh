#!/bin/bash
# Makes servers.img and layers.json in the folder $1: an ext4 image on which Docker, containerd and
# Podman themselves wrote layers, containers and records. It needs root, gcc, mkfs.ext4, and in PATH
# dockerd, docker, containerd, ctr, runc, podman and conmon (Debian: docker.io containerd runc podman
# conmon). Last made with Docker 20.10.24, containerd 1.6.20, Podman 4.3.1, Linux 6.18.
set -e
T=$(realpath "$1"); M=$T/mnt; mkdir -p "$M"
stop() { kill "$(cat "$1")"; sleep 4; }

cat > $T/pause.c <<'C'
static long nap(long *t){long r;__asm__ volatile("syscall":"=a"(r):"a"(35),"D"(t),"S"(0):"rcx","r11","memory");return r;}
void _start(void){long t[2]={3600,0};for(;;)nap(t);}
C
gcc -static -nostdlib -O -s -o $T/pause $T/pause.c
truncate -s 48M $T/servers.img
mkfs.ext4 -q -I 256 -b 1024 -N 4096 -J size=4 -U 5f0b9f3e-7f5a-4c57-9b0c-4f8d6a1c2e77 -L server $T/servers.img
mount -o loop $T/servers.img $M
mkdir -p $M/var/lib/docker $M/etc $M/usr/bin $M/home/anna
printf 'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n' > $M/etc/os-release
echo server > $M/etc/hostname

# --- Docker: an image, two images on it, two containers
DOCKER_RAMDISK=1 dockerd --data-root $M/var/lib/docker --exec-root $T/exec -H unix://$T/docker.sock \
    -p $T/docker.pid --bridge=none --iptables=false --ip-forward=false --storage-driver overlay2 2> $T/dockerd.log &
D="docker -H unix://$T/docker.sock"
until $D ps > /dev/null 2>&1; do sleep 1; done
B=$T/base; mkdir -p $B/{bin,etc,data/old,data/d,app,tmp,usr/lib,proc,dev,sys}
cp $T/pause $B/bin/pause
printf 'NAME="Tiny Linux"\nID=tiny\nVERSION_ID="1.0"\nPRETTY_NAME="Tiny Linux 1.0"\n' > $B/etc/os-release
echo root:x:0:0:root:/root:/bin/sh > $B/etc/passwd
echo one > $B/data/old/1; echo two > $B/data/old/2; echo d1 > $B/data/d/1
echo conf > $B/app/config; echo secret > $B/app/secret; echo keep > $B/app/keep
tar -C $B -c . | $D import - tiny:1.0
begin() { $D run -d --name $1 --network none $2 /bin/pause; m=$M/var/lib/docker/overlay2/$($D inspect -f '{{.GraphDriver.Data.MergedDir}}' $1 | sed 's,.*/overlay2/,,'); }
begin one tiny:1.0
rm $m/app/secret; echo new > $m/app/config
$D kill one; $D commit one shop/web:2.0; $D rm one
begin two shop/web:2.0
rm -r $m/data/old; mkdir $m/data/old; echo fresh > $m/data/old/3
$D kill two; $D commit two shop/web:2.1; $D rm two
begin web shop/web:2.1
echo evil:x:0:0::/:/bin/sh >> $m/etc/passwd; rm $m/app/config; rm -r $m/data/d; mkdir $m/data/d; echo in > $m/data/d/9
mkdir $m/tmp/.x; echo miner > $m/tmp/.x/m; mv $m/app/keep $m/app/kept
echo gone > $m/tmp/gone; sync -f $m; rm $m/tmp/gone; chmod 600 $m/data/old/3
$D kill web
begin idle tiny:1.0; $D kill idle
$D save shop/web:2.1 -o $T/web.tar
stop $T/docker.pid

# --- containerd, as Kubernetes uses it
cat > $T/containerd.toml <<C
version = 2
root = "$M/var/lib/containerd"
state = "$T/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$T/containerd.sock"
C
containerd -c $T/containerd.toml 2> $T/containerd.log & echo $! > $T/containerd.pid; sleep 3
C="ctr -a $T/containerd.sock -n k8s.io"
$C images import $T/web.tar
$C run -d --snapshotter overlayfs --label io.kubernetes.pod.name=shop-0 --label io.kubernetes.pod.namespace=prod \
    --label io.kubernetes.container.name=front docker.io/shop/web:2.1 front1 /bin/pause
m=$(find $T/state -name rootfs -path '*front1*')
echo x >> $m/etc/passwd; rm $m/app/config; echo p > $m/tmp/payload
$C task kill -s SIGKILL front1; sleep 1; $C task rm front1 || true
stop $T/containerd.pid

# --- Podman
printf '{"default":[{"type":"insecureAcceptAnything"}]}' > $T/policy.json
printf '[storage]\ndriver="overlay"\ngraphroot="%s"\nrunroot="%s"\n' $M/var/lib/containers/storage $T/prun > $T/storage.conf
export CONTAINERS_STORAGE_CONF=$T/storage.conf
P="podman --runtime runc --cgroup-manager cgroupfs"
$P load --signature-policy $T/policy.json -i $T/web.tar
$P create --name pweb --network none localhost/shop/web:2.1 /bin/pause
m=$($P mount pweb); echo y >> $m/etc/passwd; rm $m/app/config; echo p > $m/tmp/payload; $P umount pweb

# --- LXC, a chroot, a snapshot of Timeshift, Podman without root: as they lie on a disk
R=$M/var/lib/lxc/box/rootfs; mkdir -p $R/etc $R/usr/bin
printf 'PRETTY_NAME="Alpine Linux v3.19"\nID=alpine\nVERSION_ID=3.19.1\n' > $R/etc/os-release
printf 'lxc.include = /usr/share/lxc/config/common.conf\nlxc.arch = linux64\nlxc.rootfs.path = dir:/var/lib/lxc/box/rootfs\nlxc.uts.name = box\n' > $M/var/lib/lxc/box/config
R=$M/srv/jail; mkdir -p $R/usr/lib $R/usr/bin $R/etc $R/var/log
printf 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\nVERSION_ID="22.04"\n' > $R/usr/lib/os-release
ln -s ../usr/lib/os-release $R/etc/os-release; ln -s usr/bin $R/bin; echo "I: Retrieving" > $R/var/log/bootstrap.log
R=$M/timeshift/snapshots/2026-03-01_10-00-01/localhost; mkdir -p $R/etc $R/usr/bin
cp $M/etc/os-release $R/etc/; ln $M/etc/hostname $R/etc/hostname
S=$M/home/anna/.local/share/containers/storage; mkdir -p $S/overlay/l $S/overlay-{layers,images,containers}
cd $S/overlay; for n in aaa bbb; do mkdir -p $n/diff $n/work; done
mkdir -p aaa/diff/{etc,bin,data}; cp $M/etc/os-release aaa/diff/etc/; echo base > aaa/diff/data/f; echo base > aaa/diff/data/g
printf AAAAAAAAAAAAAAAAAAAAAAAAAA > aaa/link; printf BBBBBBBBBBBBBBBBBBBBBBBBBB > bbb/link
printf l/AAAAAAAAAAAAAAAAAAAAAAAAAA > bbb/lower
ln -s ../aaa/diff l/AAAAAAAAAAAAAAAAAAAAAAAAAA; ln -s ../bbb/diff l/BBBBBBBBBBBBBBBBBBBBBBBBBB
printf '[{"id":"aaa","created":"2026-03-01T10:00:00Z"},{"id":"bbb","parent":"aaa"}]' > ../overlay-layers/layers.json
printf '[{"id":"img1","names":["docker.io/library/debian:12"],"layer":"aaa"}]' > ../overlay-images/images.json
printf '[{"id":"ctr1","names":["annas"],"image":"img1","layer":"bbb"}]' > ../overlay-containers/containers.json
O=$T/merged; mkdir $O
mount -t overlay overlay -o userxattr,lowerdir=$S/overlay/aaa/diff,upperdir=$S/overlay/bbb/diff,workdir=$S/overlay/bbb/work $O
rm $O/data/f; echo more >> $O/data/g; rm -r $O/etc; mkdir $O/etc; echo x > $O/etc/new; umount $O
chown -R 1000:1000 $M/home/anna; cd $T

# --- the layers of each container, the upper one first, for the kernel to mount
python3 - $M > $T/layers.json <<'P'
import glob, json, os, sys
M = sys.argv[1]
real = lambda path: os.path.realpath(path)[len(M):]
stack = lambda store, top: [real(f"{store}/{top}/diff")] + [real(f"{store}/{low}") for low in open(f"{store}/{top}/lower").read().split(":")]
truth = {}
docker = M + "/var/lib/docker"
for path in sorted(glob.glob(docker + "/containers/*/config.v2.json")):
    one = json.load(open(path))
    top = open(f"{docker}/image/overlay2/layerdb/mounts/{one['ID']}/mount-id").read()
    truth["docker " + one["Name"].strip("/")] = stack(docker + "/overlay2", top)
snapshots = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
truth["containerd"] = [f"{snapshots}/{number}/fs" for number in (4, 3, 2, 1)]
for store in ("/var/lib/containers/storage", "/home/anna/.local/share/containers/storage"):
    one = json.load(open(M + store + "/overlay-containers/containers.json"))[0]
    truth["podman " + one["names"][0]] = stack(M + store + "/overlay", one["layer"])
json.dump(truth, sys.stdout, indent=1)
P
umount $(grep " $M/" /proc/mounts | cut -d' ' -f2 | sort -r) $M
