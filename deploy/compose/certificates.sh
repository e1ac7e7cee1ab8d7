#!/bin/sh
# Writes the certificates of etcd's members and of their client into a folder: certificates.sh FOLDER.
# A folder that has them stays as it is. Needs openssl 3.
set -eu
umask 077
cd "$1"
if [ -e complete ]; then exit 0; fi
days=3650
ec="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days $days"

openssl req -x509 $ec -keyout ca.key -out ca.crt -subj /CN=etcd-ca \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign

# leaf NAME USAGES NAMES: a certificate that the CA signs.
leaf() {
    openssl req -x509 $ec -CA ca.crt -CAkey ca.key -keyout "$1.key" -out "$1.crt" -subj "/CN=$1" \
        -addext basicConstraints=critical,CA:FALSE -addext "extendedKeyUsage=$2" -addext "subjectAltName=$3"
}

for member in etcd-1 etcd-2 etcd-3; do
    # Members are servers, and clients of each other.
    leaf "$member" serverAuth,clientAuth "DNS:$member,DNS:localhost,IP:127.0.0.1"
done
leaf client clientAuth DNS:kapiserver
rm ca.key
touch complete
