"""The program attngen, which the package also contains: it reads specs and lists devices, which libattn cannot."""
from __future__ import annotations

import os
import sys
from typing import Any, Dict, List, Optional, Tuple, Union

from . import _c


def path() -> str:
    """The path of the program: $ATTNGEN, or the one in the wheel, in the source tree or on the search path."""
    found = os.environ.get("ATTNGEN") or _c.place_of("bin/attngen", "bin/attngen")
    if not found:
        import shutil
        found = shutil.which("attngen")
    if not found:
        raise ImportError("there is no program attngen; expected it in the package, in $ATTNGEN or on the search path")
    return found


def run(arguments: List[str], text: Optional[str] = None, said: Tuple[str, str] = ("", "")) -> str:
    """Returns its standard output; raises Invalid for exit status 2 and Failed for others, with its messages, in which
    said[1] stands for said[0]."""
    import subprocess
    done = subprocess.run([path()] + arguments, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True)
    if done.returncode:
        message = done.stderr.strip().replace(*said) if said[0] else done.stderr.strip()
        raise (_c.Invalid if done.returncode == 2 else _c.Failed)(message or f"exit status {done.returncode}")
    return done.stdout


def _as_json(spec: Dict[str, Any]) -> str:
    import json

    def plain(value: Any) -> Any:
        if hasattr(value, "tolist"):  # NumPy's numbers and arrays
            return value.tolist()
        raise _c.Invalid(f"spec holds {value!r}; expected numbers, strings, lists and dicts")

    return json.dumps(spec, default=plain)


def emit(spec: Union[str, Dict[str, Any], "os.PathLike[str]", None] = None, *, variant: Optional[str] = None,
         machine_code: bool = False, filter: Optional[str] = None, language: Optional[str] = None) -> Dict[str, str]:
    """Returns the kernels of a spec as a dict from file name to text, as `attngen emit` writes them.

    spec: the path of a YAML file (an os.PathLike, or a string that ends in .yaml or .yml), YAML itself as any other
    string, or a dict such as {"head_dim": [64, 128], "isa": "avx512"}. variant: the name of one kernel, instead of a
    spec. filter: a glob that names must match. machine_code: whether to include the micro-kernels' machine code.
    language: "cuda" to write kernels of OpenCL isas in CUDA C++.
    Raises attngen.Invalid or attngen.Failed with the program's message, which includes file:line:col; of YAML and of a
    dict the file is called "spec".
    """
    import tempfile
    if (spec is None) == (variant is None):
        raise _c.Invalid("spec and variant are both given or both missing; expected one of them")
    with tempfile.TemporaryDirectory() as directory:
        arguments = ["emit"]
        if variant is not None:
            arguments += ["--variant", variant]
        elif isinstance(spec, dict) or (isinstance(spec, str) and not spec.endswith((".yaml", ".yml"))):
            source = os.path.join(directory, "spec.yaml")
            with open(source, "w") as file:
                file.write(_as_json(spec) if isinstance(spec, dict) else spec)  # JSON is YAML
            arguments.append(source)
        elif isinstance(spec, (str, os.PathLike)):
            arguments.append(os.fspath(spec))
        else:
            raise _c.Invalid(f"spec is of type {type(spec).__name__}; expected a path, YAML as a string, or a dict")
        target = os.path.join(directory, "out")
        arguments += ["-o", target]
        if machine_code:
            arguments.append("--machine-code")
        if filter is not None:
            arguments += ["--filter", filter]
        if language is not None:
            arguments += ["--language", language]
        run(arguments, said=(os.path.join(directory, "spec.yaml"), "spec"))
        texts = {}
        for name in sorted(os.listdir(target)):
            if name != "manifest.json":
                with open(os.path.join(target, name)) as file:
                    texts[name] = file.read()
        return texts


def devices() -> str:
    """Returns what `attngen devices` prints: what can be used here, and why the rest cannot."""
    return run(["devices"])


def cache_path() -> str:
    """Returns the directory of the cache."""
    if _c.cache_dir is not None:
        return _c.cache_dir
    return run(["cache", "path"]).strip()


def main() -> None:
    """The command attngen of an installed wheel: replaces this process by the program."""
    os.execv(path(), ["attngen"] + sys.argv[1:])


if __name__ == "__main__":
    main()
