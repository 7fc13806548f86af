# SPDX-License-Identifier: Apache-2.0
"""A Slurm of one node, for tests: munged, slurmctld and slurmd in a folder of their own.

    with OneSlurm(folder) as slurm:
        job = slurm.submit("job.sbatch", "argument")
        slurm.wait(job, "COMPLETED")

Needs root and the Debian packages slurmctld, slurmd, slurm-client and munge (tried with 22.05).
It has no accounting, no cgroups and no systemd, so limits of memory and pins are not enforced.
"""
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ("munged", "munge", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue")
CONF = """\
ClusterName=one
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmdPort={node_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/log/jobcomp.txt
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=256
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
MailProg=/bin/true
ReturnToService=2
PropagateResourceLimits=NONE
MinJobAge=300
KillWait=5
SlurmctldTimeout=30
SlurmdTimeout=60
InactiveLimit=0
Waittime=0
NodeName={host} NodeAddr=127.0.0.1 {hardware} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=08:00:00 DefaultTime=00:05:00 State=UP PriorityTier=1 OverSubscribe=NO
PartitionName=urgent Nodes={host} MaxTime=08:00:00 DefaultTime=00:05:00 State=UP PriorityTier=2 OverSubscribe=NO
"""


def missing():
    """Why there can be no Slurm here, or None."""
    if os.geteuid() != 0:
        return "only root can start a Slurm for all"
    absent = [name for name in PROGRAMS if not find(name)]
    return f"no {', '.join(absent)}: scripts/build.sh installs them" if absent else None


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def resolve_host(host):
    """slurmctld needs a name of this machine that leads to 127.x."""
    with contextlib.suppress(OSError):
        if socket.gethostbyname(host).startswith("127."):
            return
    with open("/etc/hosts", encoding="utf-8") as file:
        text = file.read()
    with open("/etc/hosts", "w", encoding="utf-8") as file: # often a mount, which cannot be replaced
        file.write(f"127.0.0.1 {host}\n{text}")


def hardware_line():
    """"CPUs=2 Boards=1 ..." as slurmd sees this machine."""
    words = subprocess.run([find("slurmd"), "-C"], capture_output=True, text=True, check=True,
                           timeout=20).stdout.splitlines()[0].split()
    return " ".join(word for word in words if not word.startswith(("NodeName=", "RealMemory=")))


def memory_mib():
    with open("/proc/meminfo", encoding="utf-8") as file:
        return int(file.readline().split()[1]) * 8 // 10 // 1024


def until(what, seconds, done):
    """Polls. The limit is for a machine under load and ends a test that hangs."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = done()
        if value:
            return value
        time.sleep(0.05)
    raise TimeoutError(f"{what}: not in {seconds} s")


class OneSlurm:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.host = socket.gethostname().split(".")[0]
        self.conf = os.path.join(self.folder, "slurm.conf")
        self.environment = dict(os.environ, SLURM_CONF=self.conf,
                                PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
        for name in [key for key in self.environment if key.startswith(("SLURM_", "SBATCH_"))]:
            if name != "SLURM_CONF": # we may be in a job ourselves
                del self.environment[name]
        self.daemons = []

    def __enter__(self):
        os.chmod(self.folder, 0o755)
        for name in ("munge", "state", "spool", "log"):
            os.makedirs(os.path.join(self.folder, name), mode=0o755, exist_ok=True)
        resolve_host(self.host)
        with open(self.conf, "w", encoding="utf-8") as file:
            file.write(CONF.format(folder=self.folder, host=self.host, port=free_port(),
                                   node_port=free_port(), hardware=hardware_line(),
                                   memory=memory_mib()))
        with open(os.path.join(self.folder, "cgroup.conf"), "w", encoding="utf-8") as file:
            file.write("CgroupPlugin=cgroup/v1\n")
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        munge = os.path.join(self.folder, "munge")
        key, sock = os.path.join(munge, "key"), os.path.join(munge, "sock")
        with open(os.open(key, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
            file.write(os.urandom(128))
        self.daemon("munged", "-F", "--num-threads=2", f"--key-file={key}", f"--socket={sock}",
                    f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed")
        until("munged", 30, lambda: self.ask("munge", "-n", "-S", sock).returncode == 0)
        self.daemon("slurmctld", "-D", "-i", "-f", self.conf)
        until("slurmctld", 30, lambda: "UP" in self.ask("scontrol", "ping").stdout)
        self.daemon("slurmd", "-D", "-N", self.host, "-f", self.conf)
        until("slurmd", 30, lambda: self.ask("sinfo", "-h", "-N", "-o", "%T").stdout
              .split()[:1] == ["idle"])

    def daemon(self, *command):
        with open(os.path.join(self.folder, "log", command[0] + ".out"), "wb") as log:
            self.daemons.append(subprocess.Popen([find(command[0]), *command[1:]], stdout=log,
                                                 stderr=log, stdin=subprocess.DEVNULL,
                                                 start_new_session=True, env=self.environment))

    def ask(self, *command, **options):
        return subprocess.run([find(command[0]), *command[1:]], capture_output=True, text=True,
                              env=self.environment, timeout=60, check=False, **options)

    def submit(self, *command, **variables):
        """Returns the number of the job."""
        done = subprocess.run([find("sbatch"), "--parsable", *command], capture_output=True,
                              text=True, env=dict(self.environment, **variables), timeout=60,
                              check=False, cwd=self.folder)
        if done.returncode:
            raise RuntimeError(f"sbatch {command}: {done.stderr}{self.logs()}")
        return done.stdout.strip()

    def states(self, job):
        """State by number of task; "" for a job that is no array."""
        lines = self.ask("squeue", "-h", "-r", "-t", "all", "-j", job, "-o", "%K %T").stdout
        return {task.replace("N/A", ""): state
                for task, state in (line.split() for line in lines.splitlines())}

    def wait(self, job, *states, seconds=120):
        """Until all tasks of the job are in one of these states."""
        def arrived():
            found = self.states(job)
            return found and all(state in states for state in found.values()) and found
        try:
            return until(f"job {job} in {states}", seconds, arrived)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it is {self.states(job)}{self.logs()}") from None

    def hurry(self, job):
        """A job that is queued again waits two minutes, until its credential has expired. Not here, but the
        node refuses one that is not of a later second than the end of the job before."""
        time.sleep(2)
        for task in [task for task, state in self.states(job).items() if state == "PENDING"]:
            self.ask("scontrol", "update", f"JobId={job}{'_' + task if task else ''}",
                     "StartTime=now")

    def logs(self):
        """The ends of the logs, for messages."""
        text = ""
        for name in ("slurmctld.log", "slurmd.log", "munged.out", "slurmctld.out", "slurmd.out"):
            with contextlib.suppress(OSError), \
                    open(os.path.join(self.folder, "log", name), encoding="utf-8") as file:
                text += f"\n--- {name}\n" + "".join(file.readlines()[-15:])
        return text

    def __exit__(self, *_):
        if len(self.daemons) > 1:
            self.ask("scancel", "-f", "-u", "root")
            with contextlib.suppress(TimeoutError):
                until("an empty queue", 15, lambda: not self.ask("squeue", "-h").stdout.strip())
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.end_strays()

    def end_strays(self):
        """Steps that outlived their slurmd: processes whose SLURM_CONF is ours, and no others."""
        ours = f"SLURM_CONF={self.conf}".encode()
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/environ", "rb") as file:
                    words = file.read().split(b"\0")
                is_step = any(word.startswith(b"SLURM_JOB_ID=") for word in words)
                if ours in words and is_step and int(pid) != os.getpid():
                    os.kill(int(pid), signal.SIGKILL)
