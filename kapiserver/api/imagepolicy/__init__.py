"""imagepolicy.k8s.io: reviews of whether the images of a pod may run."""
