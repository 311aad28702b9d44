"""Training of a model whose weights, gradients and optimizer are divided among processes (FSDP2).

What: each process keeps a part of each matrix; a layer is put together while it is computed.
Why: 8 billion weights with AdamW need 128 GB, which no single GPU has.
Trade-off: PyTorch's `fully_shard` is called directly, as Accelerate only passes it on, on GPUs
alone, and wants the optimizer before it. The main process alone reads the model and hands out its
parts, one weight at a time; it has all of them in main memory when training starts and ends.
Reference: Zhao et al. (2023), PyTorch FSDP.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.core.artifacts import remove
from corpusfit.core.errors import (
    ModelError,
    StorageError,
    TrainingError,
    UsageError,
    bad_setting,
    machine_fault,
)
from corpusfit.embed.prediction import evaluation_mode

if TYPE_CHECKING:
    import torch

_LAYER_CLASSES = "FSDP_TRANSFORMER_CLS_TO_WRAP"
_REFUSED = {
    "ACCELERATE_USE_DEEPSPEED": "DeepSpeed",
    "ACCELERATE_USE_MEGATRON_LM": "Megatron-LM",
    "ACCELERATE_USE_PARALLELISM_CONFIG": "tensor or context parallelism",
}


def launched_sharded() -> bool:
    """Whether `accelerate launch` was asked for FSDP; raises `UsageError` for what cannot be."""
    # Accelerate itself must not see it: it would prepare the model in its own way.
    for variable, name in _REFUSED.items():
        if os.environ.get(variable, "").lower() == "true":
            raise UsageError(
                f"`accelerate launch` was asked for {name}, which is not supported. Launch with "
                "`--use_fsdp --fsdp_version 2`, or without either for data parallelism."
            )
    if os.environ.pop("ACCELERATE_USE_FSDP", "").lower() != "true":
        return False
    version = os.environ.get("FSDP_VERSION", "1")
    if version != "2":
        cure = "Launch with `--fsdp_version 2`."
        raise bad_setting("`--fsdp_version`", "2", version, cure)
    if os.environ.get("FSDP_OFFLOAD_PARAMS", "").lower() == "true":
        cure = "Offloading is not supported."
        raise bad_setting("`--fsdp_offload_params`", "false", "true", cure)
    return True


@contextmanager
def naming_lost_processes() -> Iterator[None]:
    """Replace the error of an exchange with a process that has ended by one for the user."""
    try:
        yield
    except RuntimeError as e:
        import torch

        # gloo's are of no type of their own, but name the file that they come from
        if isinstance(e, torch.distributed.DistError) or "/gloo/" in str(e):
            raise TrainingError(
                "Another process of this training has ended, or cannot be reached any more; its "
                "own output says why. Run the same command again: it resumes from the last "
                "checkpoint."
            ) from e
        raise


def shard(model: Any, world: int, device: Any) -> None:
    """Divide a model's weights among the processes, layer by layer, in place.

    Weights and buffers are those of the main process, in its main memory; those of the others may
    be on torch's device `meta`.
    """
    import torch
    from torch.distributed.fsdp import fully_shard

    if world == 1 and not torch.distributed.is_initialized():
        cure = "Start several: `torchrun --nproc-per-node 2 -m corpusfit adapt …`."
        raise bad_setting("`train.shard`", "false with one process", "true", cure)
    asked = [name for name in os.environ.get(_LAYER_CLASSES, "").split(",") if name]
    names = set(asked or getattr(model, "_no_split_modules", None) or ())
    layers = [(at, part) for at, part in model.named_modules() if type(part).__name__ in names]
    if not layers:
        named = ", ".join(asked) or "layers that transformers names as wholes"
        raise ModelError(
            f"`train.shard` divides a model by layers, and {type(model).__name__} has no {named}. "
            f"Name the class of its layers in the variable {_LAYER_CLASSES}, or leave out "
            "`train.shard`."
        )
    tensors = [*model.named_parameters(remove_duplicate=False)]
    tensors += model.named_buffers(remove_duplicate=False)
    forms = [{n: (id(t), t.shape, t.dtype, t.requires_grad) for n, t in tensors}]
    del tensors
    torch.distributed.broadcast_object_list(forms)
    if torch.distributed.get_rank() > 0:
        # Places for what the main process has: a file decides what is tied, and buffers are in
        # none. The system gives memory to what is written alone, which is never the whole model.
        made: dict[int, torch.Tensor] = {}
        for name, (key, shape, dtype, trained) in forms[0].items():
            within, _, field = name.rpartition(".")
            owner = model.get_submodule(within)
            if key not in made:
                made[key] = torch.empty(shape, dtype=dtype)
                if field in owner._parameters:
                    made[key] = torch.nn.Parameter(made[key], requires_grad=trained)
            setattr(owner, field, made[key])
        made.clear()
    mesh = torch.distributed.device_mesh.init_device_mesh(device.type, (world,))
    owners: dict[int, set[Any]] = {}  # the modules of each weight; several share a tied one
    for part in model.modules():
        for weight in part.parameters(recurse=False):
            owners.setdefault(id(weight), set()).add(part)
    # a layer with a weight that is also elsewhere, as embeddings may be, belongs to the whole model
    apart = [
        (at, part)
        for at, part in reversed(layers)  # the inner ones first
        if all(owners[id(weight)] <= set(part.modules()) for weight in part.parameters())
    ]
    values = {name: weight.detach() for name, weight in model.named_parameters()}
    for at, part in [*apart, ("", model)]:
        fully_shard(part, mesh=mesh)
        for name, weight in part.named_parameters(at):
            if name in values:  # and not handed out with an inner layer
                assign(weight, values.pop(name))
    for buffer in model.buffers():
        torch.distributed.broadcast(buffer.contiguous(), 0)


def divide_again(model: Any) -> None:
    """Divide weights that calls have put together, also calls that failed."""
    import torch

    # a call that fails leaves them so until another comes to its end, and each leaves those of the
    # whole model
    with evaluation_mode(model):
        model(input_ids=torch.zeros(1, 2, dtype=torch.long, device=model.device))
    model.reshard()


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor put together, on all processes at once; any other as it is."""
    together: torch.Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return together


def assign(parameter: torch.Tensor, value: torch.Tensor) -> None:
    """Copy a whole tensor, the main process's, into a parameter that may be divided."""
    import torch

    with torch.no_grad():
        if hasattr(parameter, "device_mesh"):
            from torch.distributed.tensor import distribute_tensor

            value = value.to(parameter.device, parameter.dtype)
            where: Any = parameter
            value = distribute_tensor(value, where.device_mesh, where.placements)
        parameter.copy_(value)


def gather(model: Any, *, main: bool) -> None:
    """Put the weights together in the main process's memory, so that the model can be saved.

    The other processes keep none. The model cannot be called afterwards.
    """
    import torch
    from torch.distributed.fsdp import FSDPModule

    gathered: dict[int, torch.nn.Parameter] = {}  # a shared weight once
    for part in model.modules():
        for name, parameter in list(part._parameters.items()):
            if parameter is None:
                continue
            if id(parameter) not in gathered:
                tensor = whole(parameter.detach())
                tensor = tensor.cpu() if main else tensor.to("meta")
                own = torch.nn.Parameter(tensor, requires_grad=parameter.requires_grad)
                gathered[id(parameter)] = own
            part._parameters[name] = gathered[id(parameter)]
    for part in model.modules():
        part._state_dict_pre_hooks.clear()  # they would divide the weights again
        if isinstance(part, FSDPModule):
            part.__class__ = type(part).__mro__[2]  # what it was before `fully_shard`


def save(
    folder: Path, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any, *, main: bool
) -> None:
    """Write the weights and moments, each process its part, on all of them at once."""
    from torch.distributed import barrier
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.state_dict_saver import save as save_parts

    if main:
        remove(folder)
    barrier()
    try:
        save_parts(_stored(parameters, optimizer), checkpoint_id=folder)
    except CheckpointException as e:  # on all processes, for a fault of one
        error, _ = next(iter(e.failures.values()))
        message = f"Cannot write {folder}"
        # PyTorch's archive hides the system's error
        hidden = (
            f"{message}, perhaps as the disk is full: {str(error).strip()}. Make room on it, then "
            "run the same command again; finished work is kept."
        )
        raise (machine_fault(error, message) or StorageError(hidden)) from e


def load(folder: Path, parameters: Mapping[str, torch.nn.Parameter], optimizer: Any) -> None:
    """Read what `save` wrote, by the same or another number of processes."""
    import torch
    from torch.distributed.checkpoint.filesystem import FileSystemReader
    from torch.distributed.checkpoint.state_dict_loader import load as load_parts

    names = FileSystemReader(folder).read_metadata().state_dict_metadata
    for name, parameter in parameters.items():
        if f"{name}/step" in names:  # missing where a weight has no gradient
            optimizer.state[parameter] = {
                "step": torch.zeros((), device=parameter.device),
                "exp_avg": torch.zeros_like(parameter.detach()),
                "exp_avg_sq": torch.zeros_like(parameter.detach()),
            }
    load_parts(_stored(parameters, optimizer), checkpoint_id=folder)


def _stored(parameters: Mapping[str, torch.nn.Parameter], optimizer: Any) -> dict[str, Any]:
    """The tensors of a checkpoint by name; reading one fills them."""
    stored: dict[str, Any] = {name: p.detach() for name, p in parameters.items()}
    for name, parameter in parameters.items():
        state = optimizer.state.get(parameter, {})
        stored |= {f"{name}/{key}": value for key, value in state.items()}
    return stored
