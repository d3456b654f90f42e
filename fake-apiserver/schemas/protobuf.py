#!/usr/bin/env python3
"""Takes the numbers that fields have in protocol buffers from the Go types of Kubernetes.

    ./protobuf.py FOLDER     # the folder with k8s.io/api@VERSION and k8s.io/apimachinery@VERSION, as Go keeps modules

It writes protobuf.txt: a line a message, its name and its fields, each with number, name in JSON, how it is kept and type. Messages
that no served kind leads to are left out. Nothing in that file is typed by hand: to add a kind, add its row to kinds.rs and run
this again.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
VERSION = "v0.36.3"
META = "k8s.io.apimachinery.pkg.apis.meta.v1."
# Written and read by hand, because JSON has them in a form of its own.
SPECIAL = {
    "k8s.io.apimachinery.pkg.api.resource.Quantity": "Q",
    "k8s.io.apimachinery.pkg.util.intstr.IntOrString": "O",
    "k8s.io.apimachinery.pkg.runtime.RawExtension": "R",
    META + "FieldsV1": "R",
    META + "Time": "T",
    META + "MicroTime": "U",
}
SCALARS = {"string": "s", "bool": "b", "int32": "i", "int64": "i", "bytes": "y", "double": "d"}
ROOTS = [META + name for name in ("DeleteOptions", "Status", "PartialObjectMetadata", "PartialObjectMetadataList")] + [
    "k8s.io.api." + name for name in (
        "authentication.v1.SelfSubjectReview", "authentication.v1.TokenRequest", "authentication.v1.TokenReview",
        "authorization.v1.LocalSubjectAccessReview", "authorization.v1.SelfSubjectAccessReview",
        "authorization.v1.SelfSubjectRulesReview", "authorization.v1.SubjectAccessReview", "autoscaling.v1.Scale",
        "core.v1.Binding", "policy.v1.Eviction",
    )
]


def served():
    """(group, version, kind) of each row of kinds.rs; the version is v1 unless the group names another."""
    text = (HERE / "../src/kinds.rs").read_text()
    constants = dict(re.findall(r'^const (\w+): &str = "([^"]*)";', text, re.M))
    rows = re.findall(r'^    \((?:"([^"]*)"|(\w+)), "(\w+)", "\w+", (?:NAMESPACED|CLUSTER)', text, re.M)
    named = [((constants[constant] if constant else group), kind) for group, constant, kind in rows]
    return [(group.partition("/")[0], group.partition("/")[2] or "v1", kind) for group, kind in named]


def tags(folder):
    """{type: {number: (name in JSON, is a pointer, is left out when empty)}} of a package's Go types."""
    found = {}
    for file in folder.glob("*.go"):
        if file.name.endswith(("_test.go", "generated.pb.go")):
            continue
        for name, body in re.findall(r"^type (\w+) struct \{\n(.*?)^\}", file.read_text(), re.M | re.S):
            for line in body.splitlines():
                match = re.match(r'\s*(?:\w+\s+)?(\S+)\s+`json:"([^"]*)" protobuf:"\w+,(\d+),', line)
                if match:
                    kind, json, number = match.groups()
                    field = json.split(",")
                    found.setdefault(name, {})[int(number)] = (field[0], kind.startswith("*"), len(field) > 1)
    return found


def messages(modules):
    """{full name: [(number, JSON name, kept, type)]} of all packages."""
    all_messages = {}
    for file in modules.glob("api*/**/generated.proto"):
        if f"@{VERSION}" not in str(file):
            continue
        text = re.sub(r"//.*", "", file.read_text())
        package = re.search(r"^package ([\w.]+);", text, re.M).group(1)
        names = tags(file.parent)
        for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S):
            fields = []
            for repeated, kind, field, number in re.findall(
                r"(optional|repeated|map)\s*(<[^>]*>|[\w.]+)\s+(\w+) = (\d+);", body
            ):
                json, pointer, omitted = names.get(name, {}).get(int(number), (field, False, True))
                fields.append((int(number), json, repeated, kind, pointer, omitted))
            all_messages[f"{package}.{name}"] = (package, fields)
    return all_messages


def full(package, kind):
    return kind[1:] if kind.startswith(".") else f"{package}.{kind}"


def short(name):
    return name.replace("k8s.io.api.", "").replace(META, "meta.")


def main():
    known = messages(pathlib.Path(sys.argv[1]))
    roots = list(ROOTS)
    for group, version, kind in served():
        package = "k8s.io.api." + (group.removesuffix(".k8s.io").split(".")[0] or "core") + "." + version
        roots += [f"{package}.{kind}", f"{package}.{kind}List"]
    lines, todo = {}, [root for root in roots if root in known]
    while todo:
        name = todo.pop()
        if name in lines:
            continue
        package, fields = known[name]
        written = []
        for number, json, repeated, kind, pointer, omitted in sorted(fields):
            if repeated == "map":
                kind = kind.strip("<>").split(",")[1].strip()
            code = SCALARS.get(kind)
            if code is None:
                target = full(package, kind)
                code = SPECIAL.get(target)
                if code is None:
                    todo.append(target)
                    code = "m" + short(target)
            kept = {"map": "%", "repeated": "*"}.get(repeated) or ("?" if pointer else "=" if omitted else "!")
            written.append(f"{number}:{json}:{kept}{code}")
        lines[name] = " ".join(written)
    missing = sorted(set(roots) - set(lines))
    (HERE / "protobuf.txt").write_text("".join(f"{short(name)} {lines[name]}\n" for name in sorted(lines)))
    print(f"{len(lines)} messages; without any: {', '.join(missing) or 'none'}")


main()
