"""Compiles groups of kernels to object code, which is loaded without numba."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba

from bayeslab.posterior.machine.catalogue import evidence_function, fused
from bayeslab.posterior.machine.kernels.arrays import arrays
from bayeslab.posterior.machine.kernels.densities import each_kernel, sum_kernel
from bayeslab.posterior.machine.kernels.driver import driver
from bayeslab.posterior.machine.kernels.elementwise import arithmetic, functions
from bayeslab.posterior.machine.kernels.evidence import called_kernels, evidence, evidence_kernel
from bayeslab.posterior.machine.kernels.matrices import matrices
from bayeslab.posterior.machine.kernels.sums import sums

__all__ = ["object_code"]

_KERNEL = "float64(int64)"


def object_code(group: str, symbol: Callable[[str], str]) -> bytes:
    """Object code of a group's kernels.

    Parameters
    ----------
    group
        See :func:`bayeslab.posterior.machine.linked.address`.
    symbol
        ``symbol(kernel)``: the name of a kernel in object code.
    """
    module = llvm.parse_assembly("")
    for name, (function, signature) in _functions(group).items():
        compiled: Any = numba.cfunc(signature, error_model="numpy", fastmath={"contract"})(function)
        part = llvm.parse_bitcode(compiled._library._final_module.as_bitcode())
        inner = compiled.native_name.removeprefix("cfunc.")
        for each in [*part.functions, *part.global_variables]:
            if not each.is_declaration and each.name != inner:
                each.linkage = llvm.Linkage.internal
        part.link_in(llvm.parse_assembly(_entry(symbol(name), inner, signature)), preserve=False)
        part.get_function(inner).linkage = llvm.Linkage.internal
        module.link_in(part, preserve=False)
    machine = _target_machine()
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2)))
    # Where a kernel of a latent variable is loaded, numba is; functions of Python are for messages of errors, which
    # nobody reads.
    unknown = [f.name for f in module.functions if f.is_declaration and f.name.startswith(("Py", "numba_", "NRT_"))]
    assert not unknown or group.startswith(("evidence ", "called ")), (
        f"{group} needs {unknown}, which only numba provides"
    )
    code = bytes(machine.emit_object(module))
    # LLVM's loader mixes up the tables of several objects.
    assert b"_GLOBAL_OFFSET_TABLE_" not in code, f"{group} has a table of addresses"
    return code


def _entry(name: str, inner: str, signature: str) -> str:
    """A function in C that calls a numba function, whose status is always 0: kernels raise nothing.

    numba's wrapper for C would need functions of Python and numba for exceptions.
    """
    result, arguments = signature.removesuffix(")").split("(")
    kind = "double" if result == "float64" else "i64"
    given = [f"i64 %a{k}" for k in range(len(arguments.split(",")))]
    called = ", ".join(["ptr %result", "ptr %exception", *given])
    return f"""
declare i32 @"{inner}"(ptr, ptr, {", ".join(["i64"] * len(given))})
define {kind} @{name}({", ".join(given)}) {{
    %result = alloca {kind}
    %exception = alloca ptr
    store {kind} {"0.0" if kind == "double" else "0"}, ptr %result
    %status = call i32 @"{inner}"({called})
    %value = load {kind}, ptr %result
    ret {kind} %value
}}
"""


def _target_machine() -> Any:
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        reloc="static",
        codemodel="jitdefault",
    )


def _functions(group: str) -> dict[str, tuple[Any, str]]:
    kind, _, rest = group.partition(" ")
    if kind == "driver":
        return driver()
    if kind == "density":
        name, layout, pattern = rest.split(" ")
        function = fused(name)
        assert function is not None
        return {"forward": ((each_kernel if layout == "each" else sum_kernel)(function, pattern), _KERNEL)}
    if kind == "evidence":
        name, kinds = rest.split(" ")
        return {"forward": (evidence_kernel(evidence_function(name), kinds), _KERNEL)}
    if kind == "called":
        name, gradient, head, kinds = rest.split(" ")
        module = name.partition(":")[0]
        made = called_kernels(evidence_function(name), evidence_function(f"{module}:{gradient}"), head, kinds)
        return {direction: (kernel, _KERNEL) for direction, kernel in made.items()}
    kernels = _operations()
    directions = ("forward", "backward")
    return {d: (kernels[f"{rest}_{d}"], _KERNEL) for d in directions if f"{rest}_{d}" in kernels}


@cache
def _operations() -> dict[str, Any]:
    return arithmetic() | functions() | arrays() | matrices() | sums() | evidence()
