"""The programs that `kapiserver envtest` writes, for the envtest of controller-runtime."""
