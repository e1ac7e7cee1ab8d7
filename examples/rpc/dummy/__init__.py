"""The group dummy of csi-proxy's API document, in two versions."""
