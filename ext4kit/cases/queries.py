"""The questions that `CaseDatabase.query` answers, each with its parameters.

Each is a SELECT of a view or table of the case database. Parameters are bound, never put into the
text; a parameter that is not given is NULL there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ext4kit.errors import RequestError

Value = str | int | None
_FEWEST, _MOST = -(1 << 63), (1 << 63) - 1  # what a column holds


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query.

    Attributes:
        name: its name; also that of its option.
        kind: type of the value; a time is an integer of nanoseconds since 1970 UTC, a glob a text
            with `*`, `?` and `[...]`.
        help: what it does.
        default: its value if it is not given.
        is_required: whether it must be given.
    """

    name: str
    kind: Literal["integer", "text", "time", "glob"]
    help: str
    default: Value = None
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A question with a name.

    Attributes:
        name: its name, that of its view where it has one.
        help: what it answers.
        sql: the SELECT, without LIMIT.
        parameters: its parameters.
        needs_refresh: whether it reads tables that only `CaseDatabase.refresh` brings up to date.
    """

    name: str
    help: str
    sql: str
    parameters: tuple[Parameter, ...] = ()
    needs_refresh: bool = False

    def bound(self, given: Mapping[str, Value]) -> dict[str, Value]:
        """The value of each parameter.

        Raises:
            RequestError: a parameter is missing, unknown or of another type.
        """
        known = {each.name: each for each in self.parameters}
        if unknown := sorted(given.keys() - known.keys()):
            names = ", ".join(known) or "none"
            raise RequestError(f"{self.name}: no parameter {unknown[0]}; it has: {names}")
        return {name: self._value(each, given.get(name)) for name, each in known.items()}

    def _value(self, parameter: Parameter, value: Value) -> Value:
        if value is None:
            value = parameter.default
        if value is None:
            if parameter.is_required:
                raise RequestError(f"{self.name}: give {parameter.name}: {parameter.help}")
            return None
        wanted = int if parameter.kind in ("integer", "time") else str
        if not isinstance(value, wanted):
            raise RequestError(f"{self.name}: {parameter.name} must be of type {parameter.kind}")
        if isinstance(value, int) and not _FEWEST <= value <= _MOST:
            raise RequestError(f"{self.name}: {parameter.name} is out of range")
        return value


_IMAGE = Parameter("image", "text", "only this image")
_SINCE = Parameter("since", "time", "from this time on", _FEWEST)
_UNTIL = Parameter("until", "time", "before this time", _MOST)
_GLOB = Parameter("name", "glob", "names that this glob matches, as `*.php`", is_required=True)
_IMAGES = Parameter("images", "integer", "on at least so many images", 2)
_ON_IMAGE = "(:image IS NULL OR image = :image)"

QUERIES = (
    Query("images", "Images of the case, and how many of their volumes are imported.",
          "SELECT * FROM images ORDER BY image"),
    Query("shared_files", "Contents (by SHA-256) that are on several images.",
          "SELECT * FROM shared_files WHERE images BETWEEN :images AND :most_images"
          " ORDER BY images DESC, sha256",
          (_IMAGES, Parameter("most_images", "integer", "on at most so many images", _MOST)),
          needs_refresh=True),
    Query("files_by_hash", "All files with one SHA-256, live and deleted.",
          "SELECT image, host, volume_id, id, state, grade, path, path_bytes, size, uid, mtime,"
          " sha256 FROM all_files WHERE sha256 = lower(:sha256) ORDER BY id",
          (Parameter("sha256", "text", "the hash, in hexadecimal", is_required=True),)),
    Query("deleted_and_live", "Deleted files whose content is live on another image.",
          f"SELECT * FROM deleted_and_live WHERE {_ON_IMAGE} ORDER BY volume_id, id",
          (_IMAGE,), needs_refresh=True),
    Query("activity", "Times of files and events of the journals of all images, by time.",
          f"SELECT * FROM activity WHERE time >= :since AND time < :until AND {_ON_IMAGE}"
          " ORDER BY time",
          (_SINCE, _UNTIL, _IMAGE)),
    Query("activity_by_hour", "How many times and events fall into each hour, by image.",
          f"SELECT * FROM activity_by_hour WHERE time >= :since AND time < :until AND {_ON_IMAGE}"
          " ORDER BY time, volume_id, what", (_SINCE, _UNTIL, _IMAGE)),
    Query("files_by_owner", "Files of one user on all images, live and deleted.",
          f"SELECT * FROM files_by_owner WHERE uid = :uid AND {_ON_IMAGE}"
          " ORDER BY volume_id, id",
          (Parameter("uid", "integer", "the number of the user", is_required=True), _IMAGE)),
    Query("owners", "Users, with the number and bytes of their files on each volume.",
          "SELECT * FROM owners_by_volume WHERE (:uid IS NULL OR uid = :uid)"
          f" AND {_ON_IMAGE} ORDER BY uid, volume_id",
          (Parameter("uid", "integer", "only the user with this number"), _IMAGE)),
    Query("names", "Names of files that a glob matches, each once, with the number of images.",
          "SELECT images, files, name FROM names WHERE name GLOB :name ORDER BY name",
          (_GLOB,), needs_refresh=True),
    Query("files_by_name", "All files whose name a glob matches, live and deleted.",
          "SELECT image, host, volume_id, id, state, grade, f.path, path_bytes, size, uid, mtime,"
          " sha256 FROM names n CROSS JOIN all_files f ON f.name = n.name WHERE n.name GLOB :name"
          " ORDER BY n.name, f.id", (_GLOB,), needs_refresh=True),
    Query("shared_signs", "Signs of tampering or intrusion that several images have in one path.",
          "SELECT * FROM shared_signs WHERE images >= :images"
          " ORDER BY images DESC, sightings DESC, code, path", (_IMAGES,)),
    Query("not_read", "What was not read: problems, volumes without import, signs not searched.",
          "SELECT * FROM not_read ORDER BY volume_id, place, meaning"),
)  # fmt: skip


def find_query(name: str) -> Query:
    """The query of a name.

    Raises:
        RequestError: there is none.
    """
    for each in QUERIES:
        if each.name == name:
            return each
    raise RequestError(f"{name}: no such query; there are: {', '.join(q.name for q in QUERIES)}")
