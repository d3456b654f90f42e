"""Lists and watches by the Python client until its version is too old, and recovers. Arguments: a kubeconfig, a number of writes
that the server does not remember. Says nothing and ends with 0 if all is as it should be."""

import sys

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
forgotten = int(sys.argv[2])


def create(name):
    metadata = client.V1ObjectMeta(name=name)
    return api.create_namespaced_config_map("default", client.V1ConfigMap(metadata=metadata, data={"a": "b"}))


def names(version, count):
    """The next events since a version."""
    found = []
    stream = watch.Watch().stream(
        api.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=20
    )
    for event in stream:
        found.append((event["type"], event["object"].metadata.name))
        if len(found) == count:
            return found
    raise SystemExit(f"the watch ended after {found}")


create("first")
listed = api.list_namespaced_config_map("default")
assert [item.metadata.name for item in listed.items] == ["first"], listed
version = listed.metadata.resource_version
create("second")
api.patch_namespaced_config_map("second", "default", {"data": {"a": "c"}})
api.delete_namespaced_config_map("second", "default")
expected = [("ADDED", "second"), ("MODIFIED", "second"), ("DELETED", "second")]
assert names(version, 3) == expected, "a watch tells what came after the list"

# What is a conflict says so.
try:
    create("first")
    raise SystemExit("a name was taken twice")
except ApiException as error:
    assert error.status == 409 and '"reason":"AlreadyExists"' in error.body, error

for number in range(forgotten):
    create(f"more-{number}")
try:
    names(version, 1)
    raise SystemExit("a watch goes on from what nobody remembers")
except ApiException as error:
    assert error.status == 410, error

# Who is too old lists anew, page by page, and goes on from there.
seen, token = [], None
while True:
    page = api.list_namespaced_config_map("default", limit=2, _continue=token)
    seen += [item.metadata.name for item in page.items]
    token = page.metadata._continue
    if not token:
        break
assert seen == sorted(["first"] + [f"more-{number}" for number in range(forgotten)]), seen
version = page.metadata.resource_version
create("last")
assert names(version, 1) == [("ADDED", "last")], "a watch goes on after a new list"
