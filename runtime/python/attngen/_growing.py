"""For transformers: a cache of keys and values that grows in place. transformers' own DynamicCache copies all of them for every
token; this one has room for more rows, writes new ones there, and copies only when the room is full.

What it is not: a cache of fixed size, as StaticCache is. Layers with a window, or with a state instead of keys, stay transformers'.
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

NAMES = ("cache", "past_key_values")  # of a model's cache among its arguments: since transformers 5.24, and before
_compiling = torch.compiler.is_compiling  # then nothing is written in place
LEAST_ROOM = 128  # rows; or an eighth of those that there are, so that copies cost as much as eight rows for each new one


def _kind(key: Any, value: Any) -> Tuple[Any, ...]:
    """What rows of K and V must have in common with those that they are written behind."""
    k, v = key.shape, value.shape
    return k[0], k[1], k[3], v[0], v[1], v[3], key.dtype, value.dtype, key.device


class _Room:
    """Memory of K and of V, [batch, heads, rows, elements], with rows behind those that are in use. `views` are those in use.
    Only what is behind them is ever written to, so that tensors which a layer returned keep what they hold, as DynamicLayer's
    do. `unversioned` is the same memory, but what is written there counts as no change of these tensors: autograd may have
    saved them for queries that require grad."""

    __slots__ = ("parts", "unversioned", "pair", "views", "rows", "most", "kind", "last", "dtype", "inference", "at")

    def __init__(self, keys: Any, values: Any, key: Any, value: Any) -> None:
        """Copies the rows that there are, and leaves room for the new ones and more. K and V of the same sides are one tensor,
        one behind the other, so that an operator writes both."""
        self.rows = keys.shape[2]
        most = self.rows + key.shape[2]
        most = self.most = most + max(LEAST_ROOM, most // 8)
        self.views: Any = (keys, values)
        self.kind = _kind(key, value)
        self.at: Any = None  # on the device, where write() writes
        self.last, self.dtype = (key.shape, value.shape), key.dtype
        one = key.shape == value.shape and key.dtype is value.dtype and keys.shape == values.shape
        sets = [(keys, values)] if one else [(keys,), (values,)]
        self.parts = [old[0].new_empty((len(old) * old[0].shape[0], old[0].shape[1], most, old[0].shape[3])) for old in sets]
        for part, old in zip(self.parts, sets):
            torch.cat(old, out=part.narrow(2, 0, self.rows))
        self.unversioned = [part.data for part in self.parts]
        self.pair = self.parts[0].unflatten(0, (2, key.shape[0])) if one else None  # the same memory
        self.inference = self.parts[0].is_inference()

    def takes(self, key: Any, value: Any) -> bool:
        """Whether these rows can be written behind those in use."""
        if key.requires_grad or value.requires_grad or _compiling() or (self.inference and not torch.is_inference_mode_enabled()):
            return False
        sides = key.shape, value.shape
        if sides != self.last:  # seldom, since nearly all tokens come one by one
            if key.dim() != 4 or value.dim() != 4 or key.shape[2] != value.shape[2] or self.kind != _kind(key, value):
                return False
            self.last = sides
        return self.rows + sides[0][2] <= self.most and key.dtype is self.dtype and value.dtype is self.dtype

    def append(self, key: Any, value: Any) -> Tuple[Any, Any]:
        had, new, pair = self.rows, key.shape[2], self.pair
        rows = self.rows = had + new
        if pair is not None:
            torch.cat((key, value), out=self.unversioned[0].narrow(2, had, new))
            found = self.views = pair.narrow(3, 0, rows).unbind()
            return found
        for part, added in zip(self.unversioned, (key, value)):
            part.narrow(2, had, new).copy_(added)
        found = self.views = tuple(part.narrow(2, 0, rows) for part in self.parts)
        return found

    def whole(self) -> Tuple[Any, Any]:
        """K and V with all rows that there is room for."""
        return self._divided(self.parts)

    def _divided(self, parts: List[Any]) -> Tuple[Any, Any]:
        return (parts[0], parts[1]) if self.pair is None else parts[0].chunk(2)

    def write(self, key: Any, value: Any) -> Tuple[Any, Any]:
        """Writes one row at `at`, which is read on the device, and gives all rows that there is room for: what a captured graph can
        do. Counting it is advance()."""
        for part, added in zip(self._divided(self.unversioned), (key, value)):
            part.index_copy_(2, self.at, added)
        return self.whole()

    def advance(self) -> None:
        self.rows, self.views = self.rows + 1, None

    def in_use(self) -> Any:
        if self.views is None:
            self.views = tuple(part.narrow(2, 0, self.rows) for part in self.whole())
        return self.views


class GrowingLayer(DynamicLayer):
    """A DynamicLayer that grows in place. Where somebody else sets its `keys` or `values`, as crop and reorder_cache do, and
    where there are gradients, it copies as DynamicLayer does."""

    _room: Optional[_Room] = None
    _set: Tuple[Any, Any] = (None, None)  # K and V that are in no room

    def _replace(self, keys: Any, values: Any) -> None:
        self._set, self._room = (keys, values), None

    keys: Any = property(lambda self: self._set[0] if self._room is None else self._room.in_use()[0],  # type: ignore[assignment]
                         lambda self, keys: self._replace(keys, self.values))
    values: Any = property(lambda self: self._set[1] if self._room is None else self._room.in_use()[1],  # type: ignore[assignment]
                           lambda self, values: self._replace(self.keys, values))

    def get_seq_length(self) -> int:
        return super().get_seq_length() if self._room is None else self._room.rows

    def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        room = self._room
        if room is None or not room.takes(key_states, value_states):
            room = self._new_room(key_states, value_states)
            if room is None:
                return super().update(key_states, value_states, *args, **kwargs)
            self._room = room
        elif room.at is not None:
            return room.write(key_states, value_states)
        return room.append(key_states, value_states)

    def _new_room(self, key: Any, value: Any) -> Optional[_Room]:
        """A room with the rows that there are, and for these; None if there are no rows yet, or DynamicLayer is to add these."""
        keys: Any = self.keys
        values: Any = self.values
        if keys is None or keys.numel() == 0 or _compiling() or \
                any(t.dim() != 4 or t.requires_grad for t in (key, value, keys, values)) or \
                _kind(keys, values) != _kind(key, value) or key.shape[2] != value.shape[2] or keys.shape[2] != values.shape[2]:
            return None
        return _Room(keys, values, key, value)

    def room(self) -> Optional[_Room]:
        """The room, which has a row left; None if there is none to be had."""
        if self._room is None or self._room.rows == self._room.most:
            keys, values = self.keys, self.values
            if keys is None or keys.numel() == 0:
                return None
            self._room = self._new_room(keys[:, :, :1], values[:, :, :1])
        return self._room

    def __getstate__(self) -> Dict[str, Any]:
        """Copies, also those of pickle and copy.deepcopy, have no room of the original's: they make their own."""
        return {**self.__dict__, "_set": (self.keys, self.values), "_room": None}


def cache_of(arguments: Dict[str, Any]) -> Any:
    """A model's cache among its arguments; None if there is none."""
    return next((arguments[name] for name in NAMES if arguments.get(name) is not None), None)


def let_grow(cache: Any) -> Any:
    """Has the plain layers of a DynamicCache that holds nothing yet grow in place. Other caches stay what they are."""
    if hasattr(cache, "self_attention_cache"):  # of an encoder and a decoder
        let_grow(cache.self_attention_cache)
    if isinstance(cache, DynamicCache) and not getattr(cache, "offloading", False):
        cache.layers = [GrowingLayer() if type(layer) is DynamicLayer and layer.keys is None else layer
                        for layer in cache.layers]
        if getattr(cache, "layer_class_to_replicate", None) is DynamicLayer:
            cache.layer_class_to_replicate = GrowingLayer
    return cache


class GrowingCache(DynamicCache):
    """A DynamicCache whose layers grow in place, for models that are called without generate(): model(ids, use_cache=True,
    past_key_values=GrowingCache(config=model.config)). Arguments are DynamicCache's."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        let_grow(self)
