"""Two processes: a divided model, whose weights one of them has, is the whole one to the bit."""

import torch
from shapes import CAUSAL, V, model_of, special_tokens_for

from corpusfit.embed.prediction import Predictor
from corpusfit.training import sharding
from corpusfit.training.adapter import add_adapter
from corpusfit.training.packing import find_packing
from corpusfit.training.plan import AdapterPlan

IDS = torch.arange(24).reshape(2, 12) % V


def tried(model, name):
    """What is found out by trial, and the predictor."""
    predictor = Predictor(model)
    packing = find_packing(predictor, special_tokens_for(name), 64, causal=name in CAUSAL)
    return predictor, (predictor.hooked, predictor.early, predictor.matrix is not None, packing)


def step(predictor, bf16=False):
    """A loss and its gradients, put together."""
    scale = torch.rand(24, generator=torch.Generator().manual_seed(1))
    model = predictor.model
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        places = torch.arange(24), IDS.flatten(), scale
        loss = predictor.loss(model, {"input_ids": IDS}, *places)
    loss.backward()
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return loss.item(), {name: sharding.whole(grad) for name, grad in grads.items()}


def check(name, *, adapter=False, untied=False):
    torch.set_num_threads(1)
    whole, model = model_of(name), model_of(name)
    if torch.distributed.get_rank():
        with torch.device("meta"):
            model = type(model)(model.config).eval()
    for each in (whole, model):
        if untied and each.device.type != "meta":  # as transformers unties what files have
            head = each.get_output_embeddings()
            head.weight = torch.nn.Parameter(head.weight + 1)
        if adapter:
            add_adapter(each, AdapterPlan("lora", rank=2), 0)
    sharding.shard(model, 2, torch.device("cpu"))
    for kind in ("named_parameters", "named_buffers"):
        ours, theirs = (dict(getattr(each, kind)()) for each in (model, whole))
        assert ours.keys() == theirs.keys(), name
        for key, tensor in theirs.items():
            assert torch.equal(sharding.whole(ours[key].detach()), tensor), (name, key)
            assert ours[key].requires_grad == tensor.requires_grad, (name, key)
    (one, found), (two, others) = tried(whole, name), tried(model, name)
    assert found == others, name
    assert (one.matrix is not None) == (name in CAUSAL)  # the loss without logits
    sharding.divide_again(model)
    assert all(hasattr(p, "device_mesh") for p in model.parameters())
    for bf16 in (False, False, True):  # the second time, weights are divided again
        (loss, grads), (other, divided) = step(one, bf16), step(two, bf16)
        assert loss == other, name
        assert grads.keys() == divided.keys(), name
        largest = max(float(grad.abs().max()) for grad in grads.values())
        for key, grad in grads.items():
            torch.testing.assert_close(divided[key], grad, rtol=1e-5, atol=1e-6 * largest)


torch.distributed.init_process_group("gloo")
check("gpt2")  # one matrix for embeddings and head
check("qwen2", untied=True)
check("gemma3", adapter=True)  # buffers of two kinds of layers
check("mistral")  # whose last trial fails
check("bert")
torch.distributed.destroy_process_group()
