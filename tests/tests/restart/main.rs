//! Every acknowledged job survives: a killed manager, a failed commit, a damaged disk and an orderly
//! restart lose none, run none twice, and leave running jobs alone.
#![allow(clippy::unwrap_used)]

mod clock;
mod crash;
mod failed_commit;
mod fsck;
mod in_place;
mod kill_campaign;
mod recovery;
mod storms;
