"""The store in etcd, and the client of etcd."""
