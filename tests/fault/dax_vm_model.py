"""What a durable namespace may hold after a power loss, for dax_vm: whatever is known to be durable, and of what
came later all up to one moment, which may lie within a batch that was under way."""

import collections
import random


def content(name, number, size):
    """What change or item `number` of `name` stores: it tells its number, and nobody else has its bytes."""
    return b"%010d" % number + random.Random(f"{name}/{number}").randbytes(size)


class Records:
    """What a namespace of records may hold: of each key the changes since those known to be durable. Changes have the
    number of their batch, and a batch begins when the one before is answered."""

    def __init__(self):
        self.batch = self.durable = 0
        self.changes = collections.defaultdict(lambda: [(0, None)])  # Key: [(batch, size or None)].

    def begin(self, changes):
        self.batch += 1
        for key, size in changes.items():
            self.changes[key].append((self.batch, size))

    def present(self, key):
        return self.changes[key][-1][1] is not None

    def check(self, found):
        """Problems of the records {key: value} that are there; they are what there is from now on."""
        problems, now = [], collections.defaultdict(lambda: [(0, None)])
        moments = set(range(self.durable, self.batch + 1))  # In which batch this may have been so.
        for key in sorted(set(found) | set(self.changes)):
            changes = list(self.changes[key])
            while len(changes) > 1 and changes[1][0] <= self.durable:
                changes.pop(0)
            value, fits = found.get(key), set()
            for (batch, size), (next_batch, _) in zip(changes, changes[1:] + [(self.batch, None)]):
                if value == (None if size is None else content(key.decode(), batch, size)):
                    fits.update(range(batch, next_batch + 1))
                    now[key] = [(batch, size)]
            if not fits:
                told = "is gone" if value is None else f"has {len(value)} bytes that begin {value[:10]}"
                problems.append(f"{key.decode()} {told}; changes since {self.durable}: {changes}")
            elif moments.isdisjoint(fits):
                problems.append(f"{key.decode()} is as in batch {sorted(fits)}, the others as in {sorted(moments)}")
            else:
                moments &= fits
        self.changes, self.durable = now, self.batch
        return problems


class Items:
    """The same of a queue: the numbers of its items after each batch since the one known to be durable."""

    def __init__(self):
        self.batch = self.durable = self.oldest = self.next = 0
        self.states = [[]]  # After the batches from `oldest` on.

    def begin(self, pushed=0, popped=0):
        """Returns what is to be pushed."""
        self.batch += 1
        numbers = range(self.next, self.next + pushed)
        self.next += pushed
        self.states.append(self.states[-1][popped:] + list(numbers))
        return [self.item(number) for number in numbers]

    def check(self, found):
        """Problems of the items that are there; they are what there is from now on."""
        states = self.states[self.durable - self.oldest:]
        numbers = [int(item[:10]) if item[:10].isdigit() else -1 for item in found]
        self.states, self.durable, self.oldest = [numbers], self.batch, self.batch
        damaged = [number for number, item in zip(numbers, found) if item != self.item(number)]
        if damaged:
            return [f"damaged items: {damaged}"]
        if any(self.between(one, another, numbers) for one, another in zip(states, states[1:] or states)):
            return []
        return [f"{numbers} are there, which were so at no moment: {states[:2]} to {states[-2:]}"]

    @staticmethod
    def between(one, another, numbers):
        """True if a batch that was under way turns `one` into `another`. Of its pops the first ones may have been; of its
        pushes any: each has a commit of its own, and a large one does not go by the ring (storage/README.md,
        Durability)."""
        kept = [number for number in numbers if number in one]
        new = [number for number in numbers if number not in one]
        return (numbers == kept + new and new == [number for number in another if number in new] and
                kept == one[len(one) - len(kept):] and all(number in kept for number in another if number in one))

    @staticmethod
    def item(number):
        return content("item", number, 65536 if number % 50 == 0 else number % 300)


def self_test():
    """What judges the records finds each kind of violation, and none in what may be."""
    def records(found, durable=2):
        model = Records()
        model.begin({b"a": 5, b"b": 6})
        model.begin({b"a": 7, b"b": None, b"c": 8})
        model.begin({b"a": 9})
        model.begin({b"c": None, b"d": 1})
        model.durable = durable
        return model.check({key.encode(): content(key, *change) for key, change in found.items()})

    def items(*numbers, durable=2, change=lambda item: item):
        model = Items()
        model.begin(pushed=3)
        model.begin(popped=1)
        model.begin(pushed=2)
        model.durable = durable
        return model.check([change(Items.item(number)) for number in numbers])

    for good in ({"a": (2, 7), "c": (2, 8)}, {"a": (3, 9), "c": (2, 8)}, {"a": (3, 9), "d": (4, 1)}):
        assert not records(good), good
    assert not records({}, durable=0) and not records({"b": (1, 6)}, durable=0)
    for bad in ({"a": (1, 5), "c": (2, 8)}, {"a": (2, 7)}, {"c": (2, 8)}, {"a": (2, 6), "c": (2, 8)}, {},
                {"a": (2, 7), "b": (1, 6), "c": (2, 8)}, {"a": (2, 7), "c": (2, 8), "e": (2, 8)},
                {"a": (2, 7), "c": (2, 8), "d": (4, 1)}):
        assert len(records(bad)) >= 1, bad
    for good in ((1, 2), (1, 2, 3), (1, 2, 3, 4)):
        assert not items(*good), good
    assert not items(durable=0) and not items(0, 1, durable=0)
    for bad in ((), (0, 1, 2), (2,), (1,), (2, 1), (1, 3), (1, 2, 3, 4, 5)):
        assert items(*bad), bad
    assert items(1, 2, change=lambda item: item[:-1])
    assert items(0, 1, 2, 3, durable=0)  # The push before the pop.
