"""An ordinary kopf operator with admission handlers, whose webhook server and configurations kopf
manages itself.

Run by `kopf run`; knows nothing of this project. The environment has the files of its certificate.
"""

import os

import kopf


@kopf.on.startup()
def serve_webhooks(settings: kopf.OperatorSettings, **_):
    """Serve the admission handlers, and keep their configurations in the cluster."""
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        host="localhost",
        certfile=os.environ["HOOK_CERTIFICATE"],
        pkeyfile=os.environ["HOOK_KEY"],
        cafile=os.environ["HOOK_AUTHORITY"],
    )
    settings.admission.managed = os.environ["HOOK_NAME"]


@kopf.on.mutate("configmaps", labels={"kopf": "yes"}, id="stamp")
def stamp(body, patch, operation, warnings: list[str], dryrun, **_):
    """Add what the operator saw to the data."""
    warnings.append(f"kopf saw {operation} of {body['metadata']['name']}, dry run: {dryrun}")
    patch.setdefault("data", {})["stamped"] = "by kopf"


@kopf.on.validate("configmaps", labels={"kopf": "yes"}, id="check")
def check(spec, body, userinfo, **_):
    """Refuse some data, with a code."""
    if (body.get("data") or {}).get("allowed") == "no":
        raise kopf.AdmissionError(f"not for {userinfo['username']}", code=499)
