#!/bin/bash
# The first process of a node in a container: etcd, the control plane, containerd, kubelet and kube-proxy, each started
# again when it ends. Prints "the API server is ready" once it is and the images are there; the node follows in seconds.
#
# A program's process is the number in /run/NAME.pid, what it says is in /var/log/NAME.log. While /run/hold/NAME exists, it is
# not started again. /etc/kubernetes/admin.conf leads an administrator here; only the address has to be replaced outside.
set -euo pipefail
name=$(hostname)
address=$(hostname -I | cut -d' ' -f1)
cluster=10.96.0.0/16
pods=10.244.0.0/24
etc=/etc/kubernetes
mkdir -p $etc/pki /run/hold /etc/containerd /etc/cni/net.d /var/lib/etcd

# What the kernel shows and containers lack.
mount --make-rshared /
[ -e /dev/kmsg ] || mknod /dev/kmsg c 1 11
[ -s /etc/machine-id ] || tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
echo 1 >/proc/sys/net/ipv4/ip_forward
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    # In cgroup v2 only a group without processes of its own can have groups with controllers.
    mkdir -p /sys/fs/cgroup/init
    xargs -rn1 </sys/fs/cgroup/cgroup.procs >/sys/fs/cgroup/init/cgroup.procs 2>/dev/null || true
    sed -e 's/ / +/g' -e 's/^/+/' </sys/fs/cgroup/cgroup.controllers >/sys/fs/cgroup/cgroup.subtree_control
fi

# Starts a program and keeps it running: NAME COMMAND...
keep() {
    local program=$1
    shift
    while :; do
        "$@" >>"/var/log/$program.log" 2>&1 &
        echo $! >"/run/$program.pid"
        wait $! || true
        while [ -e "/run/hold/$program" ]; do sleep 0.1; done
        sleep 0.2
    done
}

# Whoever has a token, by name: token, user and groups, and a kubeconfig.
token_of() {
    local token
    token=$(tr -d - </proc/sys/kernel/random/uuid)
    echo "$token,$2,$1,\"${3:-}\"" >>$etc/tokens.csv
    cat >"$etc/$1.conf" <<YAML
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: here, cluster: {server: "https://$address:6443", certificate-authority-data: $(base64 -w0 $etc/pki/ca.crt)}}]
users: [{name: me, user: {token: $token}}]
contexts: [{name: here, context: {cluster: here, user: me}}]
YAML
}

certificates() {
    cd $etc/pki
    openssl ecparam -name prime256v1 -genkey -noout -out ca.key
    openssl req -x509 -new -key ca.key -subj /CN=kubernetes -days 30 -out ca.crt
    openssl ecparam -name prime256v1 -genkey -noout -out apiserver.key
    openssl req -new -key apiserver.key -subj /CN=kube-apiserver -out apiserver.csr
    printf 'subjectAltName=DNS:kubernetes,DNS:kubernetes.default.svc,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:%s\nextendedKeyUsage=serverAuth\n' "$address" >apiserver.ext
    openssl x509 -req -in apiserver.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile apiserver.ext -out apiserver.crt 2>/dev/null
    openssl genrsa -out accounts.key 2048 2>/dev/null
    cd /
}

configure() {
    cat >/etc/containerd/config.toml <<TOML
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "e2e.pvbind.dev/pause:1"
  # Where less than the container's own value cannot be set.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
TOML
    cat >/etc/cni/net.d/10-bridge.conflist <<JSON
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
JSON
    # A node for a test: nobody is asked who he is, and neither pods nor images go because the machine's disk is full.
    cat >$etc/kubelet.yaml <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%}
imageGCHighThresholdPercent: 100
maxPods: 250
YAML
    cat >$etc/kube-proxy.yaml <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $etc/kube-proxy.conf}
clusterCIDR: $pods
mode: iptables
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
YAML
}

ready() {
    printf 'GET /readyz HTTP/1.0\r\n\r\n' | timeout 5 openssl s_client -quiet -connect 127.0.0.1:6443 2>/dev/null | grep -q '200 OK'
}

# Waits until a command succeeds: SECONDS WHAT COMMAND...
wait_for() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt "$end" ] || { echo "$what takes too long"; tail -n 20 /var/log/*.log; exit 1; }
        sleep 0.2
    done
}

configure
keep etcd etcd --data-dir=/var/lib/etcd --unsafe-no-fsync &
keep containerd containerd &
certificates
token_of admin admin system:masters
token_of kube-controller-manager system:kube-controller-manager
token_of kube-scheduler system:kube-scheduler
token_of kube-proxy system:kube-proxy
token_of kubelet "system:node:$name" system:nodes

# Asked to end, it waits for requests that are under way, and that for a watch as long as a request may take: a minute, if
# nothing is said. An outage longer than a lease is long enough.
keep kube-apiserver kube-apiserver --request-timeout=20s --etcd-servers=http://127.0.0.1:2379 --advertise-address="$address" --allow-privileged=true \
    --tls-cert-file=$etc/pki/apiserver.crt --tls-private-key-file=$etc/pki/apiserver.key \
    --token-auth-file=$etc/tokens.csv --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
    --service-cluster-ip-range=$cluster --service-account-issuer=https://kubernetes.default.svc \
    --service-account-key-file=$etc/pki/accounts.key --service-account-signing-key-file=$etc/pki/accounts.key \
    --kubelet-preferred-address-types=InternalIP &
images() {
    local tar
    wait_for 60 containerd ctr version
    for tar in /images/*.tar; do ctr -n k8s.io images import "$tar"; done
}
images >/var/log/images.log 2>&1 &
importing=$!

wait_for 120 kube-apiserver ready
# The program under test is the one that binds volumes.
keep kube-controller-manager kube-controller-manager --kubeconfig=$etc/kube-controller-manager.conf --leader-elect=false \
    --controllers='*,-persistentvolume-binder-controller' --use-service-account-credentials=true \
    --service-account-private-key-file=$etc/pki/accounts.key --root-ca-file=$etc/pki/ca.crt &
keep kube-scheduler kube-scheduler --kubeconfig=$etc/kube-scheduler.conf --leader-elect=false &
keep kubelet kubelet --config=$etc/kubelet.yaml --kubeconfig=$etc/kubelet.conf --hostname-override="$name" --node-ip="$address" &
keep kube-proxy kube-proxy --config=$etc/kube-proxy.yaml --hostname-override="$name" &
wait $importing || { cat /var/log/images.log; exit 1; }
echo "the API server is ready"
wait
