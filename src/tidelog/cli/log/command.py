"""`tidelog log`: what is in log files on disk, without a broker, and how to get past damage in them."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Any

import click

from tidelog.cli.key_options import disk_of_partition, key_options
from tidelog.cli.log.repair import repair
from tidelog.cli.output import ProgressLine, bytes_text, hush_stdout, print_json, time_text
from tidelog.cli.session import Failure, command_help


@click.group(help="Inspect and repair log files on disk.")
def log() -> None:
    pass


log.add_command(repair)


@log.command(
    help=command_help(
        "Show the contents of a segment file: the batches of a .log with the verdict on each CRC, and with --records "
        "their records; the entries of an .index, a .timeindex or a .txnindex (aborted transactions).  "
        "Reads the file as it is, whatever its size, with "
        "or without a broker running; an encrypted one needs its key.  The exit code is 1 when something in it is damaged.",
        """
tidelog log dump data/orders-0/00000000000000000000.log
tidelog log dump --records data/orders-0/00000000000000000000.log | less
tidelog log dump --json data/orders-0/00000000000000000000.index
""",
        """
one line per item, distinguished by "type":
{"type": "batch", "position", "size", "base_offset", "last_offset", "records", "crc": "ok" or "bad",
 "codec", "leader_epoch", "base_timestamp", "max_timestamp", "timestamp_type", "producer_id",
 "producer_epoch", "base_sequence", "last_sequence", "transactional", "control"},
 and "lost": true for one that stands where `tidelog log repair` gave records up
{"type": "record", "offset", "timestamp", "key", "value", "headers"},
 or "marker": "commit" or "abort" and "coordinator_epoch" instead of the last three for a control record
{"type": "entry", "offset", "position"} or {"type": "entry", "offset", "timestamp"}
{"type": "aborted", "producer_id", "first_offset", "last_offset", "last_stable_offset"}
{"type": "damage", "position", "problem"}
{"type": "summary", "unit": "batch" or "entry", "items", "records", "bytes", "damaged": N}
""",
    )
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--records", is_flag=True, help="Include the records of each batch.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
@key_options
def dump(file: Path, records: bool, as_json: bool, services: dict[str, Any]) -> None:
    import time

    from tidelog.cli.log.file import NotALogFile, read_log_file

    damaged = 0
    progress = ProgressLine() if not sys.stdout.isatty() else None
    try:
        size = file.stat().st_size
        disk = disk_of_partition(services, file.parent)
        for item in read_log_file(file, records, disk):
            if item["type"] == "summary":
                damaged = item["damaged"]
            if as_json:
                print_json(item)
            else:
                sys.stdout.write(_text(item) + "\n")
            if progress is not None and item["type"] in ("batch", "entry"):
                done = f"{bytes_text(item.get('position', 0))} of {bytes_text(size)}"
                progress.update(time.monotonic(), done)
        sys.stdout.flush()
    except NotALogFile as problem:
        raise Failure(str(problem)) from None
    except BrokenPipeError:
        hush_stdout()
    except OSError as problem:
        if problem.errno == errno.ENOKEY:
            raise Failure(f"{file} is encrypted: {problem}") from None
        raise Failure(f"cannot read {file}: {(problem.strerror or str(problem)).lower()}") from None
    finally:
        if progress is not None:
            progress.clear()
    if damaged:
        raise Failure(f"{file}: {damaged} damaged {'place' if damaged == 1 else 'places'}")


def _text(item: dict[str, Any]) -> str:
    kind = item["type"]
    if kind == "batch":
        return _batch_text(item)
    if kind == "record":
        return _record_text(item)
    if kind == "entry":
        return f"offset={item['offset']} " + (
            f"position={item['position']}" if "position" in item else f"time={_time(item['timestamp'])}"
        )
    if kind == "aborted":
        return (
            f"producer={item['producer_id']} offsets={item['first_offset']}..{item['last_offset']} "
            f"last-stable={item['last_stable_offset']}"
        )
    if kind == "damage":
        return f"DAMAGED position={item['position']}: {item['problem']}"
    verdict = "all good" if not item["damaged"] else f"{item['damaged']} damaged"
    what = "batches" if item["unit"] == "batch" else "entries"
    records = f", {item['records']} records" if item["unit"] == "batch" else ""
    return f"{item['items']} {what}{records}, {item['bytes']} bytes: {verdict}"


def _batch_text(item: dict[str, Any]) -> str:
    parts = [
        f"offsets={item['base_offset']}..{item['last_offset']}",
        f"position={item['position']}",
        f"size={item['size']}",
        f"records={item['records']}",
        f"time={_time(item['max_timestamp'])}",
        f"codec={item['codec']}",
        f"epoch={item['leader_epoch']}",
        f"crc={item['crc']}" if item["crc"] == "ok" else "crc=BAD",
    ]
    if item["timestamp_type"] == "append":
        parts.append("append-time")
    if item["producer_id"] >= 0:
        parts.append(f"producer={item['producer_id']}:{item['producer_epoch']}")
        parts.append(f"sequence={item['base_sequence']}..{item['last_sequence']}")
    parts += [flag for flag in ("transactional", "control") if item[flag]]
    if item.get("lost"):
        parts.append("LOST: given up by tidelog log repair")
    return " ".join(parts)


def _record_text(item: dict[str, Any]) -> str:
    line = f"  offset={item['offset']} time={_time(item['timestamp'])}"
    if "marker" in item:
        return f"{line} marker={item['marker']}"
    for name in ("key", "value"):
        if f"{name}_base64" in item:
            line += f" {name}=base64:{item[f'{name}_base64']}"
        elif item[name] is not None:
            line += f" {name}={item[name]!r}"
        elif name == "value":
            line += " value=null"
    for header in item["headers"]:
        content = header["value"] if "value" in header else f"base64:{header['value_base64']}"
        line += f" {header['name']}={content!r}"
    return line


def _time(time_ms: int) -> str:
    return time_text(time_ms) if time_ms >= 0 else "none"
