# SPDX-License-Identifier: MIT
"""Reads profile.proto without a protobuf library, and checks the rules of its readers.

A profile that breaks a rule is refused by google/pprof (CheckValid), Parca (its normalizer) or
Pyroscope (its distributor). Where their rules differ, the strictest holds. Two rules are memctx's:
no address and no function stands twice, and each location has a mapping.
"""

import gzip

VALUE_TYPE = {1: ("type", "number"), 2: ("unit", "number")}
LABEL = {
    1: ("key", "number"),
    2: ("str", "number"),
    3: ("num", "number"),
    4: ("num_unit", "number"),
}
SAMPLE = {1: ("location_id", "numbers"), 2: ("value", "numbers"), 3: ("label", [LABEL])}
MAPPING = {
    1: ("id", "number"),
    2: ("memory_start", "number"),
    3: ("memory_limit", "number"),
    4: ("file_offset", "number"),
    5: ("filename", "number"),
    6: ("build_id", "number"),
    7: ("has_functions", "number"),
    8: ("has_filenames", "number"),
    9: ("has_line_numbers", "number"),
    10: ("has_inline_frames", "number"),
}
LINE = {1: ("function_id", "number"), 2: ("line", "number"), 3: ("column", "number")}
LOCATION = {
    1: ("id", "number"),
    2: ("mapping_id", "number"),
    3: ("address", "number"),
    4: ("line", [LINE]),
    5: ("is_folded", "number"),
}
FUNCTION = {
    1: ("id", "number"),
    2: ("name", "number"),
    3: ("system_name", "number"),
    4: ("filename", "number"),
    5: ("start_line", "number"),
}
PROFILE = {
    1: ("sample_type", [VALUE_TYPE]),
    2: ("sample", [SAMPLE]),
    3: ("mapping", [MAPPING]),
    4: ("location", [LOCATION]),
    5: ("function", [FUNCTION]),
    6: ("string_table", "texts"),
    7: ("drop_frames", "number"),
    8: ("keep_frames", "number"),
    9: ("time_nanos", "number"),
    10: ("duration_nanos", "number"),
    11: ("period_type", VALUE_TYPE),
    12: ("period", "number"),
    13: ("comment", "numbers"),
    14: ("default_sample_type", "number"),
    15: ("doc_url", "number"),
}


class Malformed(Exception):
    """The bytes are no encoded message of the expected kind."""


def read_varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed(f"a varint at {at} does not end")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


def read_part(data, at):
    length, at = read_varint(data, at)
    if at + length > len(data):
        raise Malformed(f"a part of {length} bytes at {at} is cut off")
    return data[at : at + length], at + length


def default(kind):
    if kind in ("number", "fixed64"):
        return 0
    return b"" if kind == "bytes" else None if isinstance(kind, dict) else []


def read_message(data, kinds):
    """Decodes a message into a dict with all fields of the kind; missing fields have their
    defaults."""
    message = {name: default(kind) for name, kind in kinds.values()}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        field, wire = tag >> 3, tag & 7
        if field not in kinds or wire not in (0, 1, 2):
            raise Malformed(f"field {field} of type {wire} at {at}")
        name, kind = kinds[field]
        if (wire == 1) != (kind == "fixed64"):
            raise Malformed(f"{name} has the type {wire}")
        if wire == 1:
            if at + 8 > len(data):
                raise Malformed(f"{name} is cut off")
            message[name] = int.from_bytes(data[at : at + 8], "little")
            at += 8
            continue
        if wire == 0:
            value, at = read_varint(data, at)
            if kind not in ("number", "numbers"):
                raise Malformed(f"{name} is a number")
            if kind == "number":
                message[name] = signed(value)
            else:
                message[name].append(signed(value))
            continue
        part, at = read_part(data, at)
        if kind == "numbers":
            inner = 0
            while inner < len(part):
                value, inner = read_varint(part, inner)
                message[name].append(signed(value))
        elif kind == "texts":
            message[name].append(part)
        elif kind == "bytes":
            message[name] = part
        elif isinstance(kind, list):
            message[name].append(read_message(part, kind[0]))
        elif isinstance(kind, dict):
            message[name] = read_message(part, kind)
        else:
            raise Malformed(f"{name} is a part")
    return message


def decode(data):
    return read_message(gzip.decompress(data), PROFILE)


def load(path):
    with open(path, "rb") as file:
        return decode(file.read())


# --- access to a decoded profile ------------------------------------------------------------------


def text(profile, index):
    return profile["string_table"][index].decode()


def types(profile):
    return [
        (text(profile, one["type"]), text(profile, one["unit"])) for one in profile["sample_type"]
    ]


def functions(profile, location_id):
    """The functions at a location, innermost first."""
    return tuple(
        text(profile, profile["function"][line["function_id"] - 1]["name"])
        for line in profile["location"][location_id - 1]["line"]
    )


def stacks(profile):
    """[(functions, innermost first; values)] of all samples."""
    named = {one["id"]: functions(profile, one["id"]) for one in profile["location"]}
    return [
        (
            tuple(name for location in sample["location_id"] for name in named[location]),
            tuple(sample["value"]),
        )
        for sample in profile["sample"]
    ]


def sums(profile):
    """{sample type: sum over all samples}."""
    columns = zip(*(sample["value"] for sample in profile["sample"]))
    return {name: sum(column) for (name, _), column in zip(types(profile), columns)}


# --- the rules ------------------------------------------------------------------------------------

RULES = {}


def rule(function):
    """Decorator: registers a generator of complaints about a decoded profile."""
    RULES[function.__name__] = function
    return function


# the profile is so broken that the rule fails; another rule says why
UNREADABLE = "cannot be looked at"


def complaints(profile):
    """Applies all rules to a decoded profile; returns [(rule, complaint)]."""
    found = []
    for name, check in RULES.items():
        try:
            for complaint in check(profile):
                found.append((name, complaint))
        except (IndexError, KeyError, TypeError, UnicodeDecodeError):
            found.append((name, UNREADABLE))
    return found


def sequential(messages):
    for place, message in enumerate(messages):
        if message["id"] != place + 1:
            yield f"the one at {place} has the number {message['id']}"


@rule
def first_string_is_empty(profile):
    if not profile["string_table"] or profile["string_table"][0] != b"":
        yield "it is missing or not empty"


@rule
def strings_are_utf8(profile):
    for string in profile["string_table"]:
        try:
            string.decode()
        except UnicodeDecodeError as error:
            yield f"{string!r}: {error}"


@rule
def strings_exist(profile):
    users = [
        (profile, ("default_sample_type", "drop_frames", "keep_frames", "doc_url")),
        (profile["period_type"] or {}, ("type", "unit")),
    ]
    users += [(one, ("type", "unit")) for one in profile["sample_type"]]
    users += [(one, ("filename", "build_id")) for one in profile["mapping"]]
    users += [(one, ("name", "system_name", "filename")) for one in profile["function"]]
    users += [
        (label, ("key", "str", "num_unit")) for one in profile["sample"] for label in one["label"]
    ]
    for message, names in users:
        for name in names:
            if not 0 <= message.get(name, 0) < len(profile["string_table"]):
                yield f"{name} {message[name]} of {message}"


@rule
def sample_types_are_named(profile):
    names = types(profile)
    if not names:
        yield "there is none"
    if len({name for name, _ in names}) != len(names):
        yield f"one is there twice: {names}"
    for name, unit in names:
        if not name or not unit or "-" in name:
            yield f"{name!r}, {unit!r}"


@rule
def default_type_exists(profile):
    if text(profile, profile["default_sample_type"]) not in [name for name, _ in types(profile)]:
        yield "it is none of the sample types"


@rule
def samples_have_all_values(profile):
    for sample in profile["sample"]:
        if len(sample["value"]) != len(profile["sample_type"]):
            yield f"{len(sample['value'])} values for {len(profile['sample_type'])} types"


@rule
def samples_have_something(profile):
    for sample in profile["sample"]:
        if not any(sample["value"]):
            yield "a sample of zeros"


@rule
def samples_have_locations(profile):
    for sample in profile["sample"]:
        if not sample["location_id"]:
            yield "a sample without any"
        for number in sample["location_id"]:
            if not 0 < number <= len(profile["location"]):
                yield f"location {number} does not exist"


@rule
def labels_have_keys(profile):
    for sample in profile["sample"]:
        for label in sample["label"]:
            if label["key"] == 0:
                yield f"{label}"


@rule
def mappings_are_sequential(profile):
    yield from sequential(profile["mapping"])


@rule
def mappings_have_files(profile):
    for mapping in profile["mapping"]:
        if not text(profile, mapping["filename"]):
            yield f"mapping {mapping['id']} has none"


@rule
def functions_are_sequential(profile):
    yield from sequential(profile["function"])


@rule
def functions_have_names(profile):
    for function in profile["function"]:
        if not text(profile, function["name"]):
            yield f"function {function['id']} has none"


@rule
def functions_are_unique(profile):
    seen = set()
    for function in profile["function"]:
        key = tuple(function[name] for name in ("name", "filename", "start_line"))
        if key in seen:
            yield f"{text(profile, function['name'])} is there twice"
        seen.add(key)


@rule
def locations_are_sequential(profile):
    yield from sequential(profile["location"])


@rule
def locations_have_mappings(profile):
    for location in profile["location"]:
        if not 0 < location["mapping_id"] <= len(profile["mapping"]):
            yield f"location {location['id']} has mapping {location['mapping_id']}"


@rule
def locations_lie_in_their_mappings(profile):
    for location in profile["location"]:
        mapping = profile["mapping"][max(location["mapping_id"], 1) - 1]
        if not mapping["memory_start"] <= location["address"] < mapping["memory_limit"]:
            yield f"{location['address']:#x} is not in {text(profile, mapping['filename'])}"


@rule
def locations_are_unique(profile):
    seen = set()
    for location in profile["location"]:
        key = (location["mapping_id"], location["address"])
        if key in seen:
            yield f"{functions(profile, location['id'])} at {location['address']:#x} is there twice"
        seen.add(key)


@rule
def locations_are_used(profile):
    used = {number for sample in profile["sample"] for number in sample["location_id"]}
    for location in profile["location"]:
        if location["id"] not in used:
            yield f"location {location['id']} is in no sample"


@rule
def lines_have_functions(profile):
    for location in profile["location"]:
        if not location["line"]:
            yield f"location {location['id']} has no line"
        for line in location["line"]:
            if not 0 < line["function_id"] <= len(profile["function"]):
                yield f"location {location['id']} has function {line['function_id']}"


@rule
def period_is_told(profile):
    kind = profile["period_type"]
    if kind is None or (text(profile, kind["type"]), text(profile, kind["unit"])) != (
        "space",
        "bytes",
    ):
        yield f"its type is {kind}"
    if profile["period"] <= 0:
        yield f"it is {profile['period']}"


@rule
def time_is_a_moment(profile):
    if profile["time_nanos"] <= 0:
        yield f"the time is {profile['time_nanos']}"
    if profile["duration_nanos"] != 0:
        yield f"what is alive has a duration of {profile['duration_nanos']}"
