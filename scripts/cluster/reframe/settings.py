# SPDX-License-Identifier: Apache-2.0
"""ReFrame's settings for attnbench: this machine, and a Slurm. Copy it, and change the lines marked
"yours". Slurm without accounting (sacct) needs the scheduler `squeue`; else take `slurm`."""
import os

site_configuration = {
    "systems": [{
        "name": "attnbench",
        "descr": "this machine and its queue",
        "hostnames": [".*"],
        "partitions": [
            {"name": "local", "scheduler": "local", "launcher": "local", "environs": ["plain"],
             "max_jobs": 1}, # one at a time: figures of time need a machine alone
            {"name": "slurm", "scheduler": "squeue", "launcher": "srun", "environs": ["plain"],
             "access": [os.environ.get("ATTNBENCH_ACCESS", "--partition=main")], # yours
             "max_jobs": 1},
        ],
    }],
    "environments": [{"name": "plain", "cc": "cc", "cxx": "c++", "ftn": ""}],
    "general": [{"remote_detect": False, "resolve_module_conflicts": False}],
    "storage": [{"enable": False}],
    "logging": [{
        "level": "debug",
        "handlers": [{"type": "stream", "name": "stdout", "level": "info",
                      "format": "%(message)s"}],
    }],
}
