//! What holds across the parts of the store: random histories, killed managers, lost power,
//! damaged files.

mod crash;
mod damage;
mod model;
mod power;
mod torn;
mod unsynced;
