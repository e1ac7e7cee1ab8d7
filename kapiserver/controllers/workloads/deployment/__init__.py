"""The Deployment controller: `plan` and `status` are its pure core, `controller` is its shell."""
