#!/bin/bash
# What a Ceph container of compose-engines.yaml does: `mon`, `mgr`, `osd ID`, `pool`, or `health mon|osd.ID`. A role that was cut off while it made its data
# makes them anew; what is made once stays. The monitor writes the cluster's configuration and the administrator's key to a volume that only Ceph's containers
# have; `pool` writes what the object-gateways need to another one.
set -euo pipefail
umask 077
role=$1 id=${2:-}
# Folders: the administrator's, the gateways', this daemon's own; where a gateway sees its folder.
admin=${CEPH_ADMIN_FOLDER:-/etc/ceph} client=${CEPH_CLIENT_FOLDER:-/client} data=${CEPH_DATA_FOLDER:-/var/lib/ceph/concord}
mounted=${CEPH_CLIENT_MOUNT:-/etc/ceph}
address=[v2:${CEPH_MONITOR_ADDRESS:?}/0]
owner=${CEPH_CLIENT_OWNER:-1000:1000} osd_bytes=${CEPH_OSD_BYTES:-10737418240}
conf=$admin/ceph.conf

ask() { timeout 60 ceph -c "$conf" --connect-timeout 30 "$@"; }

# Runs a daemon, or its --mkfs, as the user ceph where a container begins as root.
as_ceph() {
  local user=()
  if [ "$(id -u)" = 0 ]; then
    chown -R ceph:ceph "$data"
    user=(--setuser ceph --setgroup ceph)
  fi
  "$@" -c "$conf" "${user[@]}"
}

serve() { as_ceph exec_daemon "$@"; }
exec_daemon() { exec "$@"; }

# The last step of making something: durable before it counts as made.
made() {
  sync
  touch "$data/made"
}

write_conf() {
  cat >"$conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = $address
ms bind msgr1 = false
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
auth allow insecure global id reclaim = false
osd pool default size = 3
osd pool default min size = 2
osd memory target = 1073741824
bluestore block create = true
bluestore block size = $osd_bytes
log to stderr = true
err to stderr = true
log to file = false
mon cluster log to file = false
admin socket =
run dir = /tmp
debug rocksdb = 1/5
[client.admin]
keyring = $admin/admin.keyring
CONF
  # Read by the user ceph; keys are in files of their own.
  chmod 0644 "$conf"
}

make_mon() {
  rm -rf "$data/mon"
  mkdir -p "$data/mon"
  write_conf
  local keys=$data/mon.keyring
  ceph-authtool --create-keyring "$keys" --gen-key -n mon. --cap mon 'allow *'
  ceph-authtool --create-keyring "$admin/admin.keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  ceph-authtool "$keys" --import-keyring "$admin/admin.keyring"
  local fsid
  fsid=$(sed -n 's/^fsid = //p' "$conf")
  monmaptool --create --clobber --fsid "$fsid" --enable-all-features --addv a "$address" "$data/monmap"
  as_ceph ceph-mon -i a --mkfs --monmap "$data/monmap" --keyring "$keys" --mon-data "$data/mon"
  made
}

make_mgr() {
  mkdir -p "$data/mgr"
  ask auth get-or-create mgr.a mon 'allow profile mgr' osd 'allow *' >"$data/mgr/keyring"
  made
}

make_osd() {
  mkdir -p "$data/osd"
  # Both first: the same call again answers the same.
  [ -s "$data/uuid" ] || cat /proc/sys/kernel/random/uuid >"$data/uuid"
  [ -s "$data/secret" ] || ceph-authtool --gen-print-key >"$data/secret"
  ask osd new "$(cat "$data/uuid")" "$id" -i - <<<"{\"cephx_secret\": \"$(cat "$data/secret")\"}"
  rm -rf "$data/osd"
  mkdir -p "$data/osd"
  ceph-authtool --create-keyring "$data/osd/keyring" --name "osd.$id" --add-key "$(cat "$data/secret")"
  as_ceph ceph-osd -i "$id" --mkfs --osd-uuid "$(cat "$data/uuid")" --osd-data "$data/osd"
  made
}

# A pool of three copies, one on each OSD, and a user that may use this pool alone.
make_pool() {
  ask osd pool create concord 32 32 replicated
  ask osd pool application enable concord concord
  # Acknowledged by all copies: gateways may start.
  rados -c "$conf" -p concord put .probe "$conf"
  rados -c "$conf" -p concord rm .probe
  ask auth get-or-create client.concord mon 'allow r' osd 'allow rw pool=concord' >"$client/ceph.client.concord.keyring"
  {
    printf '[global]\n'
    grep -E '^(fsid|mon host|auth client required) =' "$conf"
    printf 'keyring = %s/ceph.client.concord.keyring\n' "$mounted"
  } >"$client/ceph.conf"
  chown "$owner" "$client/ceph.client.concord.keyring" "$client/ceph.conf"
}

case $role in
mon)
  [ -e "$data/made" ] || make_mon
  serve ceph-mon -f -i a --mon-data "$data/mon"
  ;;
mgr)
  [ -e "$data/made" ] || make_mgr
  serve ceph-mgr -f -i a --mgr-data "$data/mgr"
  ;;
osd)
  [ -e "$data/made" ] || make_osd
  # Copies of an object are on different OSDs by this, whatever hosts the containers share.
  serve ceph-osd -f -i "$id" --osd-data "$data/osd" --crush-location "root=default host=osd-$id"
  ;;
pool) make_pool ;;
health)
  # A monitor that answers has a quorum; it knows which OSDs answer each other.
  if [ "$id" = mon ]; then ask mon stat; else ask osd dump | grep "^$id up "; fi
  ;;
*)
  echo "no such role: $role" >&2
  exit 2
  ;;
esac
