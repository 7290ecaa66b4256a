"""Every shipped model from ten seeds: each passes its verdict, or its ``about`` says why it shows one that does not.

    nice python tests/seeds.py                       all models, seeds 1 to 10
    nice python tests/seeds.py --seeds 4 crime nile  two models, seeds 1 to 4
    python tests/seeds.py --table                    only the table of what is there

It takes hours of CPU, so it is no part of ``make test``. A model that is solved exactly has one answer and needs one
seed. The first seed of all models comes first, then the others, cheapest models first. What is found is appended to a
file of JSON lines; runs that are there, of the same model file, are not done again, so that a run that was stopped goes
on where it was. With ``--anew`` only runs of the very same code count.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import bayeslab as bl
from bayeslab.errors import BayeslabError

MODELS = Path(__file__).parents[1] / "models"
PACKAGE = Path(bl.__file__).parent
WORDS = ("pass", "warn", "fail", "error")
# Models that are only queried, or decoded, have nothing to fit; structures with hidden variables are learned, not sampled.
NOTHING = ("no data to fit", "there is nothing to fit", "`bayeslab learn FILE` finds one")


def code() -> str:
    """A digest of the package: which code found what."""
    out = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        out.update(path.read_bytes())
    return out.hexdigest()[:12]


def one(file: Path, seed: int) -> dict[str, Any]:
    """Fit a model from a seed."""
    begun = time.process_time()
    out: dict[str, Any] = {"model": file.stem, "seed": seed, "digest": bl.load(file).digest(), "code": code()}
    try:
        fit = bl.fit(file, seed=seed, progress=False, runs=None)
    except BayeslabError as error:
        out |= {
            "status": "nothing" if any(words in str(error) for words in NOTHING) else "error",
            "findings": [str(error)],
        }
    except Exception:  # noqa: BLE001 (whatever goes wrong is a line of the table)
        out |= {"status": "error", "findings": traceback.format_exc().strip().splitlines()[-1:]}
    else:
        bad = [f"{f.status} {f.check}: {f.message}" for f in fit.verdict.findings if f.status != "pass"]
        out |= {"status": fit.verdict.status, "method": fit.method, "findings": bad}
    return out | {"cpu": round(time.process_time() - begun, 1)}


def read(path: Path) -> list[dict[str, Any]]:
    """What is there; a line that was cut off by the end of a process is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def table(found: Iterable[dict[str, Any]]) -> tuple[str, bool]:
    """Verdicts by model, and whether every model passes or says why not."""
    latest = {(r["model"], r["seed"]): r for r in found if r["status"] != "nothing"}
    lines, good = [f"{'model':22} {'method':11} {'seeds':>5} " + " ".join(f"{w:>5}" for w in WORDS)], True
    for name in sorted({model for model, _ in latest}):
        rows = [r for (model, _), r in sorted(latest.items()) if model == name]
        counts = [sum(r["status"] == word for r in rows) for word in WORDS]
        method = next((r["method"] for r in rows if "method" in r), "")
        lines.append(f"{name:22} {method:11} {len(rows):5} " + " ".join(f"{n or '·':>5}" for n in counts))
        if counts[0] < len(rows):
            told = "verdict" in bl.load(MODELS / f"{name}.yaml").about
            good = good and told and not counts[3]
            worst = max((r for r in rows if r["status"] != "pass"), key=lambda r: WORDS.index(r["status"]))
            lines += [f"    seed {worst['seed']}: {text}" for text in worst["findings"]]
            lines += ["    (its about says so)"] if told else []
    return "\n".join(lines), good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", help="names of models; default: all")
    parser.add_argument("--seeds", type=int, default=10, help="seeds 1 to so many")
    parser.add_argument("--out", type=Path, default=Path("seeds.jsonl"), help="the file of JSON lines")
    parser.add_argument("--table", action="store_true", help="fit nothing")
    parser.add_argument("--anew", action="store_true", help="do runs of other code again")
    given = parser.parse_args()
    files = [f for f in sorted(MODELS.glob("*.yaml")) if not given.models or f.stem in given.models]
    now = code()
    found = read(given.out)
    if not given.table:
        done = {(r["model"], r["seed"], r["digest"]) for r in found if r["code"] == now or not given.anew}
        for seed in range(1, given.seeds + 1):
            costs = {r["model"]: r["cpu"] for r in found}  # of the latest run
            exact = {r["model"] for r in found if r.get("method") == "exact"}
            for file in sorted(files, key=lambda file: costs.get(file.stem, 0)):
                if (file.stem, seed, bl.load(file).digest()) in done or (seed > 1 and file.stem in exact):
                    continue
                result = one(file, seed)
                with given.out.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(result) + "\n")
                found.append(result)
                print(f"{file.stem} {seed} {result['status']} {result['cpu']} s", file=sys.stderr, flush=True)
    text, good = table(r for r in found if r["model"] in {f.stem for f in files})
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
