"""An ordinary kopf operator that creates a Deployment for each Memcached, and reports its pods.

Run by `kopf run`; knows nothing of this project.
"""

import kopf
import kubernetes


@kopf.on.startup()
def log_in(**_):
    """Use the credentials of KUBECONFIG."""
    kubernetes.config.load_kube_config()


@kopf.on.create("memcacheds.example.dev")
def create(spec, name, namespace, **_):
    """Create the Deployment, owned by the object."""
    labels = {"app": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": spec["size"],
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "memcached", "image": "memcached:1.6"}]},
            },
        },
    }
    kopf.adopt(deployment)
    created = kubernetes.client.AppsV1Api().create_namespaced_deployment(namespace, deployment)
    return {"deployment": created.metadata.name}


@kopf.on.update("memcacheds.example.dev", field="spec.size")
def resize(new, name, namespace, **_):
    """Scale the Deployment."""
    body = {"spec": {"replicas": new}}
    kubernetes.client.AppsV1Api().patch_namespaced_deployment_scale(name, namespace, body)
    return {"replicas": new}


@kopf.on.field("deployments", field="status.availableReplicas", labels={"app": kopf.PRESENT})
def report(new, name, namespace, **_):
    """Report in the status of the Memcached how many pods are available."""
    body = {"status": {"available": new or 0}}
    kubernetes.client.CustomObjectsApi().patch_namespaced_custom_object_status(
        "example.dev", "v1", namespace, "memcacheds", name, body
    )


@kopf.on.delete("memcacheds.example.dev")
def leave(**_):
    """Makes kopf add its finalizer, so that it sees the deletion."""
