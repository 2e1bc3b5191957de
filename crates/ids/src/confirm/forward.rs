//! Confirmation of options whose places hang on variables: forwards, with a memory of dead ends.
//!
//! A variable's value is known once the option before it has an occurrence, so these options are
//! taken in their order. What comes of the options from number `n` on hangs on nothing but `n`, the
//! place where the one before ended, where that is asked for, and the values of the variables that
//! are still asked for. The answer for such a *state* is found once and remembered. Options that
//! count from the start ask for no place: chains do not hang on each other here either.
//!
//! Of a `content` with no bound to its right the answer hangs only on the first of its occurrences
//! from there on, so this is a state too: all places before one occurrence share it.
//!
//! # Bounds
//! States are the places of a text times the different values, which may be many: each costs
//! [`STATE_WORK`] of the work that a text may take, so their number and their memory are bounded
//! as the work is.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::{Answer, Literal, Text, Work, data_at, expression_text};
use crate::bytes::{ByteJump, ByteSet, ByteTest, VARIABLES_MAX, Values};
use crate::rule::{Content, DataAt, PlaceBy, Step};
use regex::bytes::Regex;

/// What a state costs, in bytes looked at.
const STATE_WORK: usize = 256;

/// A rule's options, in their order.
#[derive(Debug)]
pub(super) struct Forward {
    options: Vec<Op>,
}

/// One option.
#[derive(Debug)]
struct Op {
    what: What,
    /// Whether something hangs on where the option before ended, here or behind it.
    asks_position: bool,
    /// The variables that are asked for, here or behind it.
    asks: [bool; VARIABLES_MAX],
}

#[derive(Debug)]
enum What {
    Literal(Box<Literal>, PlaceBy),
    Absent(Box<Literal>, PlaceBy),
    Expression(Regex, bool),
    NoMatch(Regex, bool),
    DataAt(DataAt),
    Test(ByteTest),
    Jump(ByteJump),
    Set(ByteSet),
}

/// What the options from one on hang on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    /// The option, and whether the place is one of its occurrences.
    option: (u8, bool),
    place: u32,
    values: Values,
}

/// Answers of states.
pub(super) type States<S = RandomState> = HashMap<State, Answer, S>;

/// More states than this are not kept for the next text.
const STATES_KEPT: usize = 4096;

impl Forward {
    pub(super) fn new(steps: &[Step]) -> Self {
        let mut options: Vec<Op> = Vec::with_capacity(steps.len());
        let (mut asks_position, mut asks) = (false, [false; VARIABLES_MAX]);
        for step in steps.iter().rev() {
            if step.is_relative() {
                asks_position = true;
            } else if step.moves() {
                asks_position = false;
            }
            if let Step::ByteSet(set) = step {
                asks[usize::from(set.variable)] = false;
            }
            for variable in step.variables() {
                asks[usize::from(variable)] = true;
            }
            options.push(Op { what: what(step), asks_position, asks });
        }
        options.reverse();
        Self { options }
    }

    /// The best answer over all ways through the options.
    pub(super) fn confirm(&self, text: &Text<'_>, states: &mut States, work: &mut Work) -> Answer {
        // A cheap look first: most candidates lack something.
        for option in &self.options {
            if let What::Literal(literal, _) = &option.what
                && literal.find(text, 0, text.bytes.len() as i64, work).is_none()
            {
                return Answer::No;
            }
        }
        if states.capacity() > STATES_KEPT {
            *states = States::default();
        }
        states.clear();
        let options = &self.options;
        Ways { options, text, states, work }.from(0, 0, &[0; VARIABLES_MAX])
    }
}

fn what(step: &Step) -> What {
    let literal = |content: &Content| Box::new(Literal::new(content));
    match step {
        Step::Content(content) if content.negated => What::Absent(literal(content), content.by),
        Step::Content(content) => What::Literal(literal(content), content.by),
        Step::Expression(expression) => {
            let (regex, relative) = (expression.regex.clone(), expression.relative);
            match expression.negated {
                true => What::NoMatch(regex, relative),
                false => What::Expression(regex, relative),
            }
        }
        Step::DataAt(data) => What::DataAt(*data),
        Step::ByteTest(test) => What::Test(*test),
        Step::ByteJump(jump) => What::Jump(*jump),
        Step::ByteSet(set) => What::Set(*set),
    }
}

/// The ways through the options of a rule on one text.
struct Ways<'a, S> {
    options: &'a [Op],
    text: &'a Text<'a>,
    states: &'a mut States<S>,
    work: &'a mut Work,
}

impl<S: BuildHasher> Ways<'_, S> {
    /// The best answer for the options from number `idx` on.
    fn from(&mut self, idx: usize, position: usize, values: &Values) -> Answer {
        let options = self.options;
        let Some(option) = options.get(idx) else { return Answer::Stale };
        let place = if option.asks_position { position } else { 0 };
        let state = self.state(idx, false, place, values);
        if let Some(&known) = self.states.get(&state) {
            return known;
        }
        self.work.spend(STATE_WORK);
        if self.work.is_used_up() {
            return Answer::No;
        }
        let answer = self.option(idx, &option.what, position, values);
        self.states.insert(state, answer);
        answer
    }

    /// A state, of which values are no part that nobody asks for behind it.
    fn state(&self, idx: usize, is_occurrence: bool, place: usize, values: &Values) -> State {
        let asks = self.options.get(idx + usize::from(is_occurrence)).map(|option| option.asks);
        let mut asked = [0; VARIABLES_MAX];
        for (variable, value) in asked.iter_mut().enumerate() {
            if asks.is_some_and(|asks| asks[variable]) {
                *value = values[variable];
            }
        }
        State { option: (idx as u8, is_occurrence), place: place as u32, values: asked }
    }

    fn option(&mut self, idx: usize, what: &What, position: usize, values: &Values) -> Answer {
        let bytes = self.text.bytes;
        match what {
            What::Literal(literal, by) => {
                let (start, limit) =
                    literal.bounds(by.place(literal.place, values), position, bytes.len());
                self.occurrences(idx, literal, start, limit, values)
            }
            What::Absent(literal, by) => {
                let (start, limit) =
                    literal.bounds(by.place(literal.place, values), position, bytes.len());
                match literal.find(self.text, start, limit, self.work) {
                    None => self.from(idx + 1, position, values),
                    Some(_) => Answer::No,
                }
            }
            What::Expression(regex, relative) => {
                self.matches(idx, regex, *relative, position, values)
            }
            What::NoMatch(regex, relative) => {
                let (bytes, at) = expression_text(self.text, if *relative { position } else { 0 });
                self.work.spend(bytes.len());
                match regex.is_match_at(bytes, if *relative { 0 } else { at }) {
                    false => self.from(idx + 1, position, values),
                    true => Answer::No,
                }
            }
            What::DataAt(data) => match data_at(data, self.text, position, values) {
                Answer::No => Answer::No,
                here => self.go_on(here, idx, position, values),
            },
            What::Test(test) => match test.holds(bytes, position, values) {
                Some(end) => self.go_on(self.text.answer(end), idx, position, values),
                None => Answer::No,
            },
            What::Jump(jump) => match jump.land(bytes, position, values) {
                Some((landing, end)) => {
                    self.go_on(self.text.answer(end.max(landing)), idx, landing, values)
                }
                None => Answer::No,
            },
            What::Set(set) => match set.value(bytes, position, values) {
                Some((value, end)) => {
                    let mut values = *values;
                    values[usize::from(set.variable)] = value;
                    self.go_on(self.text.answer(end), idx, end, &values)
                }
                None => Answer::No,
            },
        }
    }

    /// The best answer behind option `idx`, which itself gives `here` and ends at `position`.
    fn go_on(&mut self, here: Answer, idx: usize, position: usize, values: &Values) -> Answer {
        match self.from(idx + 1, position, values) {
            Answer::No => Answer::No,
            rest => here.max(rest),
        }
    }

    /// The best answer over the occurrences of a literal.
    fn occurrences(
        &mut self,
        idx: usize,
        literal: &Literal,
        mut start: i64,
        limit: i64,
        values: &Values,
    ) -> Answer {
        let is_shared = limit == self.text.bytes.len() as i64;
        let (mut best, mut passed) = (Answer::No, Vec::new());
        while let Some(end) = literal.find(self.text, start, limit, self.work) {
            let first = end - literal.len();
            let state = self.state(idx, true, first, values);
            if let Some(&known) = self.states.get(&state).filter(|_| is_shared) {
                best = best.max(known);
                passed.push((state, known));
                break;
            }
            self.work.spend(if is_shared { STATE_WORK } else { 0 });
            let answer = self.go_on(self.text.answer(end), idx, end, values);
            best = best.max(answer);
            if is_shared {
                passed.push((state, answer));
            }
            if best == Answer::Fresh || self.work.is_used_up() {
                break;
            }
            start = first as i64 + 1;
        }
        let mut from_here = Answer::No;
        for (state, answer) in passed.into_iter().rev() {
            from_here = from_here.max(answer);
            self.states.insert(state, from_here);
        }
        best
    }

    /// The best answer over the matches of an expression, left to right, none overlapping another.
    fn matches(
        &mut self,
        idx: usize,
        regex: &Regex,
        relative: bool,
        position: usize,
        values: &Values,
    ) -> Answer {
        let position = if relative { position } else { 0 };
        let (bytes, first) = expression_text(self.text, position);
        let mut at = if relative { 0 } else { first };
        let mut best = Answer::No;
        while at <= bytes.len() && !self.work.is_used_up() {
            let Some(found) = regex.find_at(bytes, at) else {
                self.work.spend(bytes.len() - at);
                break;
            };
            self.work.spend(found.end() - at);
            let end = position + found.end();
            best = best.max(self.go_on(self.text.answer(end), idx, end, values));
            if best == Answer::Fresh {
                break;
            }
            at = found.end() + usize::from(found.is_empty());
        }
        best
    }
}
