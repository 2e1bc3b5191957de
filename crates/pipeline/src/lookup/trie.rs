//! A binary trie of the prefixes that flows examine in one field: how many of its bits decide which
//! prefixes a key can match.
//!
//! A tuple whose prefix no flow shares with the key need not be probed. That is decided by the bits
//! up to where the key leaves the trie, however long the prefixes are.
//!
//! # Source
//! Pfaff et al., "The Design and Implementation of Open vSwitch", NSDI 2015, section 5.4: longest
//! prefix matching. The trie here has one node a bit.

/// Prefixes with the number of flows that have each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Places of the nodes with one bit more; 0 for none, as the root is nobody's child.
    children: [u32; 2],
    /// Flows with exactly this prefix.
    flows: u32,
}

/// Whether some flow has the prefix of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// One may.
    Some,
    /// None, which so many leading bits of the key decide.
    None(u32),
}

/// The way of a value through a trie: it answers for prefixes of every length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Way {
    /// Bit n: some flow has the first n bits as its prefix.
    lens: u64,
    /// How many bits lead to the last node.
    depth: u32,
    /// How many decide that the way ends there.
    deciding: u32,
}

impl Way {
    /// Whether some flow has the first `len` bits as its prefix.
    #[inline]
    pub(crate) fn find(&self, len: u32) -> Found {
        if len > self.depth {
            return Found::None(self.deciding);
        }
        if self.lens >> len & 1 == 1 { Found::Some } else { Found::None(len) }
    }
}

impl Trie {
    /// Adds a prefix: the first `len` bits of `value`, at most 63.
    pub(crate) fn insert(&mut self, value: u64, len: u32) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut place = 0;
        for depth in 0..len {
            let bit = bit_at(value, depth);
            let child = self.nodes[place].children[bit];
            place = match child {
                0 => {
                    let new = self.free.pop().unwrap_or(self.nodes.len() as u32);
                    match self.nodes.get_mut(new as usize) {
                        Some(node) => *node = Node::default(),
                        None => self.nodes.push(Node::default()),
                    }
                    self.nodes[place].children[bit] = new;
                    new as usize
                }
                child => child as usize,
            };
        }
        self.nodes[place].flows += 1;
    }

    /// Takes a prefix out that was added.
    pub(crate) fn remove(&mut self, value: u64, len: u32) {
        let mut path = [0; 64];
        for depth in 0..len {
            let node = &self.nodes[path[depth as usize]];
            path[depth as usize + 1] = node.children[bit_at(value, depth)] as usize;
        }
        self.nodes[path[len as usize]].flows -= 1;
        for depth in (0..len).rev() {
            let place = path[depth as usize + 1];
            let node = self.nodes[place];
            if node.flows > 0 || node.children != [0, 0] {
                return;
            }
            self.free.push(place as u32);
            self.nodes[path[depth as usize]].children[bit_at(value, depth)] = 0;
        }
    }

    /// Follows a value as far as flows have its prefixes.
    pub(crate) fn follow(&self, value: u64) -> Way {
        let mut way = Way::default();
        let Some(mut node) = self.nodes.first() else { return way };
        loop {
            way.lens |= u64::from(node.flows > 0) << way.depth;
            if node.children == [0, 0] {
                way.deciding = way.depth;
                return way;
            }
            match node.children[bit_at(value, way.depth)] {
                0 => {
                    way.deciding = way.depth + 1;
                    return way;
                }
                child => node = &self.nodes[child as usize],
            }
            way.depth += 1;
        }
    }

    /// Whether some flow has the first `len` bits of `value` as its prefix.
    #[cfg(test)]
    fn find(&self, value: u64, len: u32) -> Found {
        self.follow(value).find(len)
    }
}

fn bit_at(value: u64, depth: u32) -> usize {
    (value >> (63 - depth) & 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpswitch_testkit::random::Random;

    #[test]
    fn examines_no_more_bits_than_decide() {
        let mut trie = Trie::default();
        assert_eq!(trie.find(0, 8), Found::None(0));
        // 10.0.0.0/8 and 10.1.0.0/16, as left-aligned values.
        let address = |a: u64, b: u64| a << 56 | b << 48;
        trie.insert(address(10, 0), 8);
        trie.insert(address(10, 1), 16);
        assert_eq!(trie.find(address(10, 1), 16), Found::Some);
        assert_eq!(trie.find(address(10, 9), 8), Found::Some);
        // 128 differs from 10 in the first bit, 11 in the last.
        assert_eq!(trie.find(address(128, 0), 8), Found::None(1));
        assert_eq!(trie.find(address(11, 0), 16), Found::None(8));
        // 10.3 leaves the path to 10.1 at its 15th bit.
        assert_eq!(trie.find(address(10, 3), 16), Found::None(15));
        // No flow has a prefix of 12 bits, whatever follows.
        assert_eq!(trie.find(address(10, 1), 12), Found::None(12));
        trie.remove(address(10, 1), 16);
        assert_eq!(trie.find(address(10, 1), 16), Found::None(8));
        trie.remove(address(10, 0), 8);
        assert_eq!(trie.find(address(10, 1), 16), Found::None(0));
        assert_eq!(trie.free.len() + 1, trie.nodes.len(), "only the root is left");
    }

    #[test]
    fn bits_that_were_not_examined_decide_nothing() {
        let (mut random, mut trie, mut prefixes) = (Random::new(3), Trie::default(), Vec::new());
        for _ in 0..3000 {
            let len = random.below(13) as u32;
            let value = random.draw() & 0xfff0_0000_0000_0000;
            if random.chance(1, 2) && !prefixes.is_empty() {
                let (value, len) = prefixes.swap_remove(random.below(prefixes.len()));
                trie.remove(value, len);
            } else {
                trie.insert(value, len);
                prefixes.push((value, len));
            }
            let key = random.draw();
            let len = random.below(13) as u32;
            let first = |value: u64, len: u32| value.checked_shr(64 - len).unwrap_or(0);
            let is_there = |key: u64| {
                prefixes.iter().any(|&(value, n)| n == len && first(value, len) == first(key, len))
            };
            match trie.find(key, len) {
                Found::Some => assert!(is_there(key)),
                Found::None(bits) => {
                    let other = key ^ random.draw().checked_shr(bits).unwrap_or(0);
                    assert!(!is_there(key) && !is_there(other), "{bits} bits of {key:x}");
                }
            }
        }
    }
}
