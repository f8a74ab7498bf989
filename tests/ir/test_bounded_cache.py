"""Caches bounded by bytes forget what was not used for longest."""

from __future__ import annotations

from ssvm_dsl.ir.bounded_cache import BoundedCache


def test_the_entry_used_longest_ago_goes_first():
    cache = BoundedCache(10)
    cache.put("a", 1, 4)
    cache.put("b", 2, 4)
    assert cache.get("a") == 1
    cache.put("c", 3, 4)
    assert [cache.get(key) for key in "abc"] == [1, None, 3]
    assert (len(cache), cache.n_bytes) == (2, 8)


def test_a_key_that_is_put_twice_counts_once():
    cache = BoundedCache(10)
    cache.put("a", 1, 6)
    cache.put("a", 2, 8)
    assert (cache.get("a"), len(cache), cache.n_bytes) == (2, 1, 8)


def test_an_entry_larger_than_the_cache_is_held_alone():
    cache = BoundedCache(10)
    cache.put("a", 1, 5)
    cache.put("b", 2, 50)
    assert (cache.get("a"), cache.get("b")) == (None, 2)
    cache.put("c", 3, 5)
    assert (cache.get("b"), cache.get("c"), cache.n_bytes) == (None, 3, 5)
    cache.clear()
    assert (len(cache), cache.n_bytes) == (0, 0)
