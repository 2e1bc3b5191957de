//! Tests of flow text: in files by what is read, and against `ovs-ofctl` where it is installed.

mod actions;
mod flows;
mod groups;
mod oracle;
mod random;
mod rules;
