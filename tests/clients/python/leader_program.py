"""A candidate of the official client's leader election; prints a line when it leads.

Arguments: namespace, name of the Lease, identity.
"""

import sys

from kubernetes import config
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

config.load_kube_config()
namespace, name, identity = sys.argv[1:]
election = electionconfig.Config(
    LeaseLock(name, namespace, identity),
    lease_duration=17,
    renew_deadline=15,
    retry_period=1,
    onstarted_leading=lambda: print("leads", flush=True),
    onstopped_leading=lambda: None,
)
leaderelection.LeaderElection(election).run()
