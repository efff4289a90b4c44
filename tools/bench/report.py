"""Reads what `xtrace replay --json` writes (docs/report-schema.md), for the tests on a GPU and for the benchmark."""
import csv
import json
import pathlib

SCHEMA, VERSION = "xtrace-replay-report", 1


def load(path):
    """The reports in the file, one a launch: a single report, a list of them, or an object with them under "launches"."""
    document = json.loads(pathlib.Path(path).read_text())
    if isinstance(document, dict) and "launches" in document:
        document = document["launches"]
    reports = document if isinstance(document, list) else [document]
    for report in reports:
        found = (report.get("schema"), report.get("schema_version"))
        if found != (SCHEMA, VERSION):
            raise ValueError(f"{path}: expected schema {SCHEMA} version {VERSION}, found {found[0]} version {found[1]}")
    return reports


def codes(config):
    return {reason["code"] for reason in config.get("reasons", [])}


def reasons_text(config):
    if config["refused"]:
        return f"refused: {config['refused']}"
    return "; ".join(f"{r['code']} {r['numbers']}".strip() for r in config["reasons"])


def config_of(report, probe, sample="all"):
    """The configuration, or None."""
    return next((c for c in report["configs"] if (c["probe"], c["sample"]) == (probe, sample)), None)


def table_of(report, config):
    """Rows {"pc", "warps", "threads", ...} of the configuration's instruction table; None when none was emitted. Instructions whose
    executions are not recorded, in loops that wait for others, are left out."""
    paths = [pathlib.Path(a["path"]) for a in config.get("artefacts", []) if a["kind"] == "table"]
    # Relative paths are relative to the current folder or to the bundle.
    paths = [p if p.exists() else pathlib.Path(report["bundle"]) / p for p in paths]
    for path in paths:
        if path.suffix == ".json":
            return [row for row in json.loads(path.read_text()) if row.get("warps", 0) is not None]
        if path.suffix == ".csv":
            with path.open(newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["warps"]]
            for row in rows:
                row.update(pc=int(row["pc"], 0), warps=int(row["warps"]), threads=int(row["threads"]))
            return rows
    return None
