#!/usr/bin/env python3
"""Takes the schemas of the served kinds from a real kube-apiserver's OpenAPI v3 documents.

    KUBEBUILDER_ASSETS=FOLDER ./fetch.py     # a folder with etcd and kube-apiserver

It starts both programs with an empty store, reads which kinds ../src/kinds.rs serves, and writes components.txt: a line a
component, with its name, the kind it is the schema of ("-" where it is part of others) and its JSON, all as the server
gives them. What no served kind leads to is left out. Nothing in that file is typed by hand: to add a kind, add its row to
kinds.rs and run this again.
"""

import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
TOKEN = "schemas"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
# Beside the kinds in the rows: what requests and answers consist of, and kinds that are answered and never stored.
MORE = [META + name for name in (
    "APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "DeleteOptions", "Patch", "Status", "WatchEvent",
)] + [
    "io.k8s.apimachinery.pkg.version.Info",
    "io.k8s.api.authentication.v1.SelfSubjectReview", "io.k8s.api.authentication.v1.TokenRequest",
    "io.k8s.api.authentication.v1.TokenReview", "io.k8s.api.authorization.v1.LocalSubjectAccessReview",
    "io.k8s.api.authorization.v1.SelfSubjectAccessReview", "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
    "io.k8s.api.authorization.v1.SubjectAccessReview", "io.k8s.api.autoscaling.v1.Scale", "io.k8s.api.core.v1.Binding",
    "io.k8s.api.policy.v1.Eviction",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionList",
]
# Components that each document has with only its own group's kinds; together they belong to every group.
EVERYWHERE = (META + "DeleteOptions", META + "WatchEvent")


def served():
    """(group, version, kind) of each row of kinds.rs; the version is v1 unless the group names another."""
    text = (HERE / "../src/kinds.rs").read_text()
    constants = dict(re.findall(r'^const (\w+): &str = "([^"]*)";', text, re.M))
    rows = re.findall(r'^    \((?:"([^"]*)"|(\w+)), "(\w+)", "\w+", (?:NAMESPACED|CLUSTER)', text, re.M)
    named = [((constants[constant] if constant else group), kind) for group, constant, kind in rows]
    return [(group.partition("/")[0], group.partition("/")[2] or "v1", kind) for group, kind in named]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def start(programs, folder, log):
    """Starts etcd and kube-apiserver; returns their processes and the server's URL."""
    etcd, peer, port = free_port(), free_port(), free_port()
    for command in (["genrsa", "-out", folder / "sa.key", "2048"], ["rsa", "-in", folder / "sa.key", "-pubout", "-out", folder / "sa.pub"]):
        subprocess.run(["openssl", *command], check=True, stdout=log, stderr=log)
    (folder / "tokens.csv").write_text(f'{TOKEN},schemas,1,"system:masters"\n')
    peers = f"http://127.0.0.1:{peer}"
    clients = f"http://127.0.0.1:{etcd}"
    running = [subprocess.Popen([
        programs / "etcd", "--data-dir", folder / "data", "--listen-client-urls", clients, "--advertise-client-urls", clients,
        "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}",
    ], stdout=log, stderr=log), subprocess.Popen([
        programs / "kube-apiserver", "--etcd-servers", clients, "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--cert-dir", folder, "--token-auth-file", folder / "tokens.csv", "--service-cluster-ip-range", "10.0.0.0/16",
        "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", folder / "sa.pub",
        "--service-account-signing-key-file", folder / "sa.key", "--endpoint-reconciler-type", "none",
    ], stdout=log, stderr=log)]
    return running, f"https://127.0.0.1:{port}"


def documents(url):
    """All OpenAPI v3 documents, once the server is up."""
    trusting = ssl._create_unverified_context()  # it made its certificate a moment ago, and nobody else knows the token

    def get(path):
        request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, context=trusting, timeout=30) as answer:
            return json.load(answer)

    deadline = time.monotonic() + 120
    while True:
        try:
            paths = get("/openapi/v3")["paths"]
            if all(f"apis/{group}/v1" in paths for group in ("apps", "storage.k8s.io", "apiextensions.k8s.io")):
                break
        except (OSError, urllib.error.URLError):
            pass
        if time.monotonic() > deadline:
            sys.exit("fetch.py: kube-apiserver serves no schemas after 120 s; run it by hand with the arguments in this file")
        time.sleep(0.2)
    return [get(one["serverRelativeURL"]) for _, one in sorted(paths.items())]


def components(documents):
    """All components of all documents by name; the few that differ by group are put together."""
    found = {}
    for document in documents:
        for name, schema in document.get("components", {}).get("schemas", {}).items():
            if name in EVERYWHERE and name in found:
                kinds = found[name]["x-kubernetes-group-version-kind"]
                kinds.extend(kind for kind in schema["x-kubernetes-group-version-kind"] if kind not in kinds)
            elif found.setdefault(name, schema) != schema:
                sys.exit(f"fetch.py: {name} differs between documents; say in this file which one is meant")
    for name in EVERYWHERE:
        found[name]["x-kubernetes-group-version-kind"].sort(key=lambda kind: (kind["group"], kind["version"]))
    return found


def references(schema):
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "$ref" and isinstance(value, str):
                yield value.rsplit("/", 1)[1]
            else:
                yield from references(value)
    elif isinstance(schema, list):
        for one in schema:
            yield from references(one)


def kind_of(name, schema):
    kinds = schema.get("x-kubernetes-group-version-kind", [])
    if len(kinds) != 1 or name in EVERYWHERE:
        return None
    return kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"]


def main():
    programs = pathlib.Path(os.environ.get("KUBEBUILDER_ASSETS") or sys.exit("fetch.py: set KUBEBUILDER_ASSETS to a folder with etcd and kube-apiserver"))
    with tempfile.TemporaryDirectory() as folder, open(os.path.join(folder, "log"), "w") as log:
        running, url = start(programs, pathlib.Path(folder), log)
        try:
            found = components(documents(url))
        finally:
            for process in reversed(running):
                process.terminate()
                process.wait(timeout=60)
    by_kind = {kind_of(name, schema): name for name, schema in found.items()}
    wanted = list(MORE)
    for group, version, kind in served():
        if (group, version, kind) not in by_kind:
            sys.exit(f"fetch.py: kube-apiserver serves no {group}/{version} {kind}")
        wanted += [by_kind[group, version, kind], by_kind[group, version, kind + "List"]]
    kept = set()
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept.add(name)
            wanted.extend(references(found[name]))
    with open(HERE / "components.txt", "w") as out:
        for name in sorted(kept):
            kind = kind_of(name, found[name])
            shown = "/".join(part for part in kind if part) if kind else "-"
            out.write(f"{name}\t{shown}\t{json.dumps(found[name], sort_keys=True, separators=(',', ':'))}\n")
    print(f"{len(kept)} components, {(HERE / 'components.txt').stat().st_size // 1024} KiB", file=sys.stderr)


main()
