"""Plain functions are seen wherever they were imported to, and everything is put back."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from attnscope.capture.interceptor import Handler, Interceptor
from attnscope.capture.rebinding import original_of, rebound


def package_function(x: int, *, more: int = 1) -> int:
    """Add."""
    return x + more


@pytest.fixture
def user() -> Iterator[ModuleType]:
    """Return a module that imported the function by another name."""
    module = ModuleType("a_user_of_it")
    module.__dict__["attend"] = package_function
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


class Recording(Interceptor):
    """Takes note of the calls of the function."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

        def handle(
            function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            output = function(*args, **kwargs)
            assert original_of(package_function) == function
            self.calls.append((args, kwargs, output))
            return output

        handlers: dict[Callable[..., Any], Handler] = {original_of(package_function): handle}
        super().__init__(lambda f, _kind, args, kwargs: f(*args, **kwargs), handlers)


def test_calls_are_seen_and_bindings_restored(user: ModuleType) -> None:
    original = package_function
    with rebound([package_function]):
        assert package_function is not original
        assert user.attend is package_function
        assert inspect.signature(package_function) == inspect.signature(original)
        assert package_function.__doc__ == "Add."
        with Recording() as recording:
            assert user.attend(2, more=3) == 5
        assert recording.calls == [((2,), {"more": 3}, 5)]
        assert user.attend(2) == 3
        assert len(recording.calls) == 1
    assert package_function is original
    assert user.attend is original


def test_bindings_are_restored_on_exceptions(user: ModuleType) -> None:
    original = package_function
    with pytest.raises(KeyError), rebound([package_function]):
        raise KeyError
    assert package_function is user.attend is original


def test_nested_recordings_both_see_the_call(user: ModuleType) -> None:
    original = package_function
    with rebound([package_function]), Recording() as outer:
        with rebound([package_function]), Recording() as inner:
            assert user.attend(1) == 2
        assert user.attend(5) == 6
    assert [call[0] for call in inner.calls] == [(1,)]
    assert [call[0] for call in outer.calls] == [(1,), (5,)]
    assert package_function is user.attend is original


def test_modules_imported_meanwhile_are_restored() -> None:
    original = package_function
    late = ModuleType("a_late_user_of_it")
    try:
        with rebound([package_function]):
            late.__dict__["attend"] = package_function
            sys.modules[late.__name__] = late
        assert late.attend is original
    finally:
        del sys.modules[late.__name__]


def test_other_threads_see_no_difference(user: ModuleType) -> None:
    results: list[int] = []
    with rebound([package_function]), Recording() as recording:
        thread = threading.Thread(target=lambda: results.append(user.attend(7)))
        thread.start()
        thread.join()
    assert results == [8]
    assert recording.calls == []


def test_what_runs_inside_a_handler_is_not_seen_again(user: ModuleType) -> None:
    with rebound([package_function]), Recording() as recording:
        user.attend(user.attend(1))
    assert len(recording.calls) == 2
