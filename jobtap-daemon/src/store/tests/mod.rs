//! Tests of the store as a whole: random histories, killed managers, power losses, damaged files.

mod crash;
mod damage;
mod model;
mod power;
mod torn;
mod unsynced;
