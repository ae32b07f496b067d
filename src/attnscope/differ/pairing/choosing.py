"""Values or names: which to believe where they contradict each other.

=============================================  ==================================================
values                                         then
=============================================  ==================================================
agree with the names, or names say nothing     values decide
contradict what names say outright, in the     chance of one seed: names decide, nothing counts
order of one random stream                     as loaded
contradict names and leave some tensor         names decide for those; the others stay
without a counterpart, where names do not
contradict names, everything has its           they were loaded so: values decide, and the
counterpart, in an order of its own            contradiction is said
=============================================  ==================================================
"""

from __future__ import annotations

from attnscope.differ.pairing.asked import Asked
from attnscope.differ.pairing.chance import contradicts, in_one_order, outspoken
from attnscope.differ.pairing.matching import Doubt, Matching


def matched(asked: Asked) -> Matching:
    """Return the pairs of two models, by values as far as these are consistent."""
    first = Matching(asked)
    proposals = asked.names.proposals
    found = [
        (weight, first.found[weight.name].arrangement)
        for weight in asked.mine
        if weight.name in first.by_value and not weight.buffer
    ]
    against = {
        weight.name: arrangement
        for weight, arrangement in found
        if contradicts(arrangement, proposals.get(weight.name))
    }
    if asked.wish == "copy" or not against:
        return first
    outright = any(outspoken(against[name], proposals[name]) for name in against)
    seeded = outright and in_one_order(found, {weight.name: weight for weight in asked.theirs})
    if first.complete and not seeded:
        return first
    second = Matching(asked, Doubt(against, seeded))
    if second.complete or (seeded and not first.complete):
        return second
    return first
