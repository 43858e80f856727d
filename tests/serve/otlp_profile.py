# SPDX-License-Identifier: MIT
"""Reads OpenTelemetry's ExportProfilesServiceRequest (profiles, v1development) without a protobuf
library, and checks the rules of the format. An unknown field is an error, so every byte is checked.
"""
import pprof_file
from harness import Failure

VALUE = {1: ("string", "bytes")}
KEY_VALUE = {1: ("key", "bytes"), 2: ("value", VALUE)}
RESOURCE = {1: ("attributes", [KEY_VALUE])}
SCOPE = {1: ("name", "bytes"), 2: ("version", "bytes")}
VALUE_TYPE = {1: ("type", "number"), 2: ("unit", "number")}
SAMPLE = {1: ("stack", "number"), 2: ("attributes", "numbers"), 3: ("link", "number"),
          4: ("values", "numbers")}
PROFILE = {
    1: ("sample_type", VALUE_TYPE), 2: ("samples", [SAMPLE]), 3: ("time", "fixed64"),
    4: ("duration", "number"),
    5: ("period_type", VALUE_TYPE), 6: ("period", "number"), 7: ("id", "bytes"),
    11: ("attributes", "numbers"),
}
SCOPE_PROFILES = {1: ("scope", SCOPE), 2: ("profiles", [PROFILE])}
RESOURCE_PROFILES = {1: ("resource", RESOURCE), 2: ("scope_profiles", [SCOPE_PROFILES])}
MAPPING = {
    1: ("start", "number"), 2: ("limit", "number"), 3: ("offset", "number"), 4: ("file", "number"),
    5: ("attributes", "numbers"),
}
LINE = {1: ("function", "number"), 2: ("line", "number"), 3: ("column", "number")}
LOCATION = {1: ("mapping", "number"), 2: ("address", "number"), 3: ("lines", [LINE]),
            4: ("attributes", "numbers")}
FUNCTION = {1: ("name", "number"), 2: ("system_name", "number"), 3: ("file", "number"),
            4: ("line", "number")}
LINK = {1: ("trace", "bytes"), 2: ("span", "bytes")}
ATTRIBUTE = {1: ("key", "number"), 2: ("value", VALUE), 3: ("unit", "number")}
STACK = {1: ("locations", "numbers")}
DICTIONARY = {
    1: ("mapping", [MAPPING]), 2: ("location", [LOCATION]), 3: ("function", [FUNCTION]),
    4: ("link", [LINK]),
    5: ("string", "texts"), 6: ("attribute", [ATTRIBUTE]), 7: ("stack", [STACK]),
}
REQUEST = {1: ("resource_profiles", [RESOURCE_PROFILES]), 2: ("dictionary", DICTIONARY)}


def need(condition, text):
    """Fails with this text unless the condition is true."""
    if not condition:
        raise Failure(text)


class Request:
    """A decoded and checked request. profiles: {type: profile}."""

    def __init__(self, data):
        """`data`: the uncompressed request."""
        decoded = pprof_file.read_message(data, REQUEST)
        self.dictionary = decoded["dictionary"]
        need(self.dictionary, "there is no dictionary")
        self.strings = [string.decode() for string in self.dictionary["string"]]
        need(len(decoded["resource_profiles"]) == 1, "more than one resource")
        of_process, = decoded["resource_profiles"]
        need(of_process["resource"], "there is no resource")
        pairs = [(one["key"].decode(), one["value"]["string"].decode())
                 for one in of_process["resource"]["attributes"]]
        self.attributes = dict(pairs)
        need(len(pairs) == len(self.attributes), f"an attribute comes twice: {pairs}")
        self.scope, = of_process["scope_profiles"]
        need(self.scope["scope"]["name"] == b"memctx" and self.scope["scope"]["version"],
             f"scope {self.scope['scope']}")
        self.profiles = {}
        for profile in self.scope["profiles"]:
            name = self.text(profile["sample_type"]["type"])
            need(name not in self.profiles, f"two profiles of {name}")
            self.profiles[name] = profile
        self.check_first_elements()
        self.check_indices()
        self.check_unique()
        self.check_profiles()

    def text(self, index):
        need(0 <= index < len(self.strings), f"string {index} of {len(self.strings)}")
        return self.strings[index]

    def check_first_elements(self):
        """Element 0 of each table means "none" where another element refers to it."""
        empty = {"mapping": MAPPING, "location": LOCATION, "function": FUNCTION,
                 "attribute": ATTRIBUTE, "stack": STACK}
        for table, kind in empty.items():
            need(self.dictionary[table] and
                 self.dictionary[table][0] == pprof_file.read_message(b"", kind),
                 f"element 0 of {table} is not the empty one")
        need(self.dictionary["link"] == [{"trace": bytes(16), "span": bytes(8)}],
             f"links {self.dictionary['link']}")
        need(self.strings[0] == "", "string 0 is not empty")

    def check_index(self, table, index, what):
        need(0 < index < len(self.dictionary[table]),
             f"{what}: {table} {index} of {len(self.dictionary[table])}")

    def check_indices(self):
        for mapping in self.dictionary["mapping"][1:]:
            need(self.text(mapping["file"]), f"a mapping without a file: {mapping}")
            for attribute in mapping["attributes"]:
                self.check_index("attribute", attribute, "mapping")
        for function in self.dictionary["function"][1:]:
            need(self.text(function["name"]) and self.text(function["system_name"]),
                 f"a function without a name: {function}")
            self.text(function["file"])
        for attribute in self.dictionary["attribute"][1:]:
            need(self.text(attribute["key"]) == "process.executable.build_id.gnu", f"{attribute}")
            bytes.fromhex(attribute["value"]["string"].decode())
        for location in self.dictionary["location"][1:]:
            self.check_index("mapping", location["mapping"], "location")
            mapping = self.dictionary["mapping"][location["mapping"]]
            need(mapping["start"] <= location["address"] < mapping["limit"],
                 f"{location} is not in {mapping}")
            need(location["lines"], "a location without lines")
            for line in location["lines"]:
                self.check_index("function", line["function"], "line")
        for stack in self.dictionary["stack"][1:]:
            need(stack["locations"], "a stack without locations")
            for location in stack["locations"]:
                self.check_index("location", location, "stack")

    def check_unique(self):
        for table in ("mapping", "location", "function", "stack", "attribute"):
            elements = [repr(one) for one in self.dictionary[table]]
            need(len(set(elements)) == len(elements), f"an element of {table} comes twice")
        need(len(set(self.strings)) == len(self.strings), "a string comes twice")
        used = {sample["stack"] for profile in self.profiles.values()
                for sample in profile["samples"]}
        need(used == set(range(1, len(self.dictionary["stack"]))), "a stack is not used")

    def check_profiles(self):
        units = {name: self.text(one["sample_type"]["unit"]) for name, one in self.profiles.items()}
        need(units == {"inuse_space": "bytes", "inuse_objects": "count", "alloc_space": "bytes",
                       "alloc_objects": "count",
                       **dict.fromkeys(("reserved", "waste", "holes", "pinned", "resident"),
                                       "bytes")}, f"types {units}")
        need(next(iter(self.profiles)) == "inuse_space", "live bytes do not come first")
        ids = {profile["id"] for profile in self.profiles.values()}
        need(len(ids) == len(self.profiles) and all(len(one) == 16 and any(one) for one in ids),
             f"ids {ids}")
        for profile in self.profiles.values():
            kind = profile["period_type"]
            need((self.text(kind["type"]), self.text(kind["unit"]), profile["period"]) ==
                 ("space", "bytes", 1), "period")
            stacks = [sample["stack"] for sample in profile["samples"]]
            need(len(set(stacks)) == len(stacks), "a stack has two samples")
            for sample in profile["samples"]:
                self.check_index("stack", sample["stack"], "sample")
                need(len(sample["values"]) == 1 and sample["values"][0] != 0,
                     f"values {sample['values']}")
                need(not sample["attributes"] and sample["link"] == 0, f"{sample}")

    def sum(self, name):
        return sum(sample["values"][0] for sample in self.profiles[name]["samples"])

    def of(self, name, function):
        """The sum of type `name` over the samples with this function in their stack."""
        return sum(sample["values"][0] for sample in self.profiles[name]["samples"]
                   if function in self.functions(sample["stack"]))

    def functions(self, stack):
        """The functions of a stack, innermost first."""
        return [self.text(self.dictionary["function"][line["function"]]["name"])
                for location in self.dictionary["stack"][stack]["locations"]
                for line in self.dictionary["location"][location]["lines"]]
