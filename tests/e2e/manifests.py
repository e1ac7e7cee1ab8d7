"""Manifests for several end-to-end tests, as a user would write them."""

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: web
  labels: {app: web}
spec:
  containers:
  - name: main
    image: nginx:1.27
    ports: [{containerPort: 80}]
    resources: {requests: {cpu: 100m}}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - {name: main, image: "nginx:1.27"}
"""

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {set: one}}
data: {a: "1"}
"""

SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: keys, labels: {set: one}}
data: {a: MQ==}
"""
