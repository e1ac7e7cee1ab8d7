"""The scheduler: it assigns pods to nodes as kube-scheduler does.

    pod_info, snapshot      what is known of pods and nodes, kept up to date with each change
    plugins                 filters of nodes, and scores of those that remain; one concern a module
    devices                 which devices the ResourceClaims of a pod get
    preemption              which pods a pod may displace
    schedule                the decision about one pod: pod and snapshot in, placement out
    controller              the shell: watches, the queue, bindings, conditions and events

All but the controller are pure. Mirrors pkg/scheduler.
"""
