//! Limits for each user: connections, requests that wait, bytes of requests.
//!
//! All connections of a user share one set of limits, and a part is reserved for the owner, whatever all guests
//! together do. So no user can, by mistake or on purpose, take another user's share.

use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::engine::Cred;
use jobtap_core::job::Uid;
use rustc_hash::FxHashMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::rpc::errno::EAGAIN;
use crate::rpc::{MAX_REQUEST, RpcError};

/// Bytes of long requests that a user may have in the manager, from the first byte that is read until the
/// engine has decided. Decoded, they take up to ten times as much memory.
const BYTES: usize = 2 * MAX_REQUEST;
/// The same for all guests together.
const BYTES_OF_GUESTS: usize = 8 * MAX_REQUEST;
/// How many requests of a user may wait at a time, such as for the end of a job or for its events.
const WAITING: usize = 16 * 1024;
/// How many streams a user may have at a time. Each may hold responses that are not read.
const STREAMS: usize = 64;
/// The maximum number of connections of a guest, if there is room for so many.
const CONNECTIONS_OF_A_GUEST: usize = 64;
/// How many users without connections are remembered because their next request isn't due yet.
const REMEMBERED: usize = 1024;
/// Under a rate, a user who has paused may send at once as many requests as are due in this time.
const BURST: Duration = Duration::from_secs(1);
/// How long a request waits for other requests of its user to make room for its bytes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The shares of all users that are connected, or whose next request isn't due yet. A user is identified by `W`: by
/// default the user id, and whether the user acts as the owner. An owner who acts as a guest has a second share.
pub(in crate::daemon) struct Shares<W: Eq + Hash = (Uid, bool)> {
    room: usize,
    taken: Mutex<Taken<W>>,
    bytes_of_guests: Arc<Semaphore>,
    array: Arc<Semaphore>,
}

struct Taken<W> {
    /// Connections of guests.
    guests: usize,
    /// The connections and the share of each user.
    users: FxHashMap<W, (usize, Arc<Share>)>,
}

/// What all connections of one user may take together.
pub(in crate::daemon) struct Share {
    bytes: Arc<Semaphore>,
    /// The bytes that they may take together with the connections of other guests.
    bytes_of_guests: Option<Arc<Semaphore>>,
    /// The place of the one request of all users that has a large array.
    array: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    /// When the user's next request is due under a rate.
    due: Mutex<Option<Instant>>,
}

/// The place of a connection. Dropping it frees the place.
pub(in crate::daemon) struct Seat<W: Copy + Eq + Hash = (Uid, bool)> {
    shares: Arc<Shares<W>>,
    who: W,
    is_guest: bool,
    share: Arc<Share>,
}

/// The bytes that a request takes of its user's or its connection's share. Dropping it gives them back.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Charge {
    bytes: usize,
    _of_connection: Option<OwnedSemaphorePermit>,
    own: Option<OwnedSemaphorePermit>,
    of_guests: Option<OwnedSemaphorePermit>,
    _array: Option<OwnedSemaphorePermit>,
}

impl<W: Copy + Eq + Hash> Shares<W> {
    /// Shares of a manager that serves at most `room` connections.
    pub(in crate::daemon) fn new(room: usize) -> Arc<Self> {
        let bytes_of_guests = Arc::new(Semaphore::new(BYTES_OF_GUESTS));
        let taken = Mutex::new(Taken { guests: 0, users: FxHashMap::default() });
        Arc::new(Self { room, taken, bytes_of_guests, array: Arc::new(Semaphore::new(1)) })
    }

    /// Takes a place for a connection of a guest. The number of these connections is limited by the caller.
    #[cfg(feature = "http")]
    pub(in crate::daemon) fn guest(self: &Arc<Self>, who: W) -> Seat<W> {
        self.take(&mut self.lock(), who, true)
    }

    fn take(self: &Arc<Self>, taken: &mut Taken<W>, who: W, is_guest: bool) -> Seat<W> {
        taken.guests += usize::from(is_guest);
        let bytes_of_guests = is_guest.then(|| Arc::clone(&self.bytes_of_guests));
        let (count, share) = taken
            .users
            .entry(who)
            .or_insert_with(|| (0, Arc::new(Share::new(bytes_of_guests, Arc::clone(&self.array)))));
        *count += 1;
        Seat { shares: Arc::clone(self), who, is_guest, share: Arc::clone(share) }
    }

    fn free(&self, who: W, is_guest: bool) {
        let mut taken = self.lock();
        if is_guest {
            taken.guests = taken.guests.saturating_sub(1);
        }
        if let Some((count, _)) = taken.users.get_mut(&who) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.forget(who, Instant::now());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Taken<W>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    /// Takes a place for a connection of this user.
    ///
    /// # Errors
    /// EAGAIN when this guest, or all guests together, have as many connections as they may. The owner is never
    /// refused.
    pub(in crate::daemon) fn seat(self: &Arc<Self>, cred: Cred) -> Result<Seat, RpcError> {
        let who = (cred.userid, cred.owner);
        let mut taken = self.lock();
        let own = taken.users.get(&who).map_or(0, |(count, _)| *count);
        if !cred.owner {
            self.check(cred.userid, own, taken.guests)?;
        }
        Ok(self.take(&mut taken, who, !cred.owner))
    }

    fn check(&self, user: Uid, own: usize, guests: usize) -> Result<(), RpcError> {
        // An eighth of all places, and at least one, is reserved for the owner.
        let for_guests = self.room.saturating_sub((self.room / 8).max(1));
        let for_one = (for_guests / 4).clamp(1, CONNECTIONS_OF_A_GUEST);
        let text = if own >= for_one {
            format!("{own} connections of user {user} are as many as one user may have")
        } else if guests >= for_guests {
            format!("{guests} connections are as many as there is room for: try again later")
        } else {
            return Ok(());
        };
        Err(RpcError::new(EAGAIN, text))
    }
}

impl<W: Copy + Eq + Hash> Taken<W> {
    /// Forgets the users without connections who would gain nothing by that under a rate. `last` has just closed its
    /// last connection, and is forgotten, too, when too many are remembered.
    fn forget(&mut self, last: W, now: Instant) {
        self.users.retain(|_, (count, share)| *count > 0 || share.is_ahead(now));
        let without = self.users.values().filter(|(count, _)| *count == 0).count();
        if without > REMEMBERED {
            self.users.remove(&last);
        }
    }
}

impl<W: Copy + Eq + Hash> Drop for Seat<W> {
    fn drop(&mut self) {
        self.shares.free(self.who, self.is_guest);
    }
}

impl<W: Copy + Eq + Hash> Seat<W> {
    /// The share of the connection's user.
    pub(in crate::daemon) fn share(&self) -> &Share {
        &self.share
    }
}

impl Share {
    /// The share of the owner alone, whose connections are not counted.
    #[cfg(feature = "http")]
    pub(in crate::daemon) fn of_owner() -> Self {
        Self::new(None, Arc::new(Semaphore::new(1)))
    }

    fn new(bytes_of_guests: Option<Arc<Semaphore>>, array: Arc<Semaphore>) -> Self {
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        let (bytes, waiting, streams) = (semaphore(BYTES), semaphore(WAITING), semaphore(STREAMS));
        Self { bytes, bytes_of_guests, array, waiting, streams, due: Mutex::default() }
    }

    /// Returns how long a request has to wait so that the user's requests come at this rate per second. After a pause,
    /// as many as are due within [`BURST`] come at once.
    pub(in crate::daemon) fn pace(&self, now: Instant, rate: f64) -> Duration {
        let pause = Duration::try_from_secs_f64(rate.recip()).unwrap_or(Duration::MAX);
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        let at = due.map_or(earliest, |at| at.max(earliest));
        *due = at.checked_add(pause).or(Some(at));
        at.saturating_duration_since(now)
    }

    /// Whether a new share would serve the user's next request earlier.
    fn is_ahead(&self, now: Instant) -> bool {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.is_some_and(|at| at + BURST > now)
    }

    /// Raises a charge to this number of bytes, and waits until other requests have made room for it.
    ///
    /// # Errors
    /// EAGAIN when there is no room in time: requests that are never completed give nothing back for a time.
    pub(in crate::daemon) async fn charge(
        &self,
        charge: &mut Charge,
        bytes: usize,
    ) -> Result<(), RpcError> {
        let more = bytes.saturating_sub(charge.bytes);
        if more == 0 {
            return Ok(());
        }
        let taken = tokio::time::timeout(PATIENCE, async {
            let own = take(&self.bytes, more).await;
            let of_guests = match &self.bytes_of_guests {
                Some(bytes) => take(bytes, more).await,
                None => None,
            };
            (own, of_guests)
        });
        let Ok((own, of_guests)) = taken.await else {
            let text = format!("this user's requests hold {BYTES} bytes, as many as they may");
            return Err(RpcError::new(EAGAIN, text));
        };
        merge(&mut charge.own, own);
        merge(&mut charge.of_guests, of_guests);
        charge.bytes = bytes;
        Ok(())
    }

    /// Charges a request with a large array, and waits until no other one is there.
    ///
    /// # Errors
    /// EAGAIN when another one takes too long.
    pub(in crate::daemon) async fn charge_array(&self) -> Result<Charge, RpcError> {
        match tokio::time::timeout(PATIENCE, take(&self.array, 1)).await {
            Ok(array) => Ok(Charge { _array: array, ..Charge::default() }),
            Err(_) => {
                let text = "another large job array is being submitted: try again";
                Err(RpcError::new(EAGAIN, text))
            }
        }
    }

    /// Takes a place for a request that may wait for a long time.
    ///
    /// # Errors
    /// EAGAIN when the user has as many as allowed.
    pub(in crate::daemon) fn wait(&self) -> Result<OwnedSemaphorePermit, RpcError> {
        try_take(&self.waiting, WAITING, "requests of this user wait")
    }

    /// Takes a place for a stream.
    ///
    /// # Errors
    /// EAGAIN when the user has as many as allowed.
    pub(in crate::daemon) fn stream(&self) -> Result<OwnedSemaphorePermit, RpcError> {
        try_take(&self.streams, STREAMS, "streams of this user are open")
    }
}

impl Charge {
    /// Charges a short request, and waits until other requests of its connection have made room for it.
    pub(super) async fn take_from(connection: &Arc<Semaphore>, bytes: usize) -> Self {
        Self { _of_connection: take(connection, bytes).await, ..Self::default() }
    }
}

async fn take(from: &Arc<Semaphore>, count: usize) -> Option<OwnedSemaphorePermit> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    // Never closed.
    Arc::clone(from).acquire_many_owned(count).await.ok()
}

fn merge(all: &mut Option<OwnedSemaphorePermit>, more: Option<OwnedSemaphorePermit>) {
    match (all.as_mut(), more) {
        (Some(all), Some(more)) => all.merge(more),
        (None, more) => *all = more,
        (Some(_), None) => {}
    }
}

fn try_take(
    from: &Arc<Semaphore>,
    most: usize,
    what: &str,
) -> Result<OwnedSemaphorePermit, RpcError> {
    let full = || RpcError::new(EAGAIN, format!("{most} {what}, as many as may"));
    Arc::clone(from).try_acquire_owned().map_err(|_| full())
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use super::*;

    fn guest(uid: u32) -> Cred {
        Cred { userid: Uid::new(uid), owner: false }
    }

    const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };

    #[test]
    fn one_guest_cannot_take_the_connections_of_others() {
        let shares = Shares::<(Uid, bool)>::new(448);
        let seats: Vec<Seat> =
            std::iter::from_fn(|| shares.seat(guest(7)).ok()).take(1000).collect();
        assert_eq!(seats.len(), CONNECTIONS_OF_A_GUEST);
        let refused = shares.seat(guest(7)).err().unwrap();
        let text = "64 connections of user 7 are as many as one user may have";
        assert_eq!((refused.errno, &*refused.text), (EAGAIN, text));
        assert!(shares.seat(guest(8)).is_ok());
        drop(seats);
        assert!(shares.seat(guest(7)).is_ok());
        assert!(shares.lock().users.is_empty() && shares.lock().guests == 0);
    }

    #[test]
    fn all_guests_together_leave_connections_to_the_owner() {
        for room in [1, 2, 48, 448] {
            let shares = Shares::<(Uid, bool)>::new(room);
            let mut seats = Vec::new();
            for uid in 0..1000 {
                seats.extend(std::iter::from_fn(|| shares.seat(guest(uid)).ok()));
            }
            assert!(seats.len() < room, "{} of {room}", seats.len());
            assert!(shares.seat(OWNER).is_ok());
        }
    }

    /// Whether this has to wait.
    async fn waits(future: impl Future) -> bool {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn requests_of_a_user_wait_for_their_share_of_bytes() {
        let shares = Shares::<(Uid, bool)>::new(448);
        let (one, other) = (shares.seat(guest(7)).unwrap(), shares.seat(guest(7)).unwrap());
        let mut charges = [Charge::default(), Charge::default(), Charge::default()];
        let [first, second, third] = &mut charges;
        one.share().charge(first, MAX_REQUEST).await.unwrap();
        other.share().charge(second, MAX_REQUEST).await.unwrap();
        assert!(waits(other.share().charge(third, 1)).await);
        // Another guest and the owner have shares of their own.
        let mut theirs = Charge::default();
        shares.seat(guest(8)).unwrap().share().charge(&mut theirs, MAX_REQUEST).await.unwrap();
        *first = Charge::default();
        other.share().charge(third, MAX_REQUEST).await.unwrap();
    }

    #[tokio::test]
    async fn guests_share_a_limit_of_bytes_that_is_not_the_owners() {
        let shares = Shares::<(Uid, bool)>::new(448);
        let mut charges: Vec<Charge> = Vec::new();
        let mut full = false;
        for uid in 0..8 {
            let seat = shares.seat(guest(uid)).unwrap();
            let mut charge = Charge::default();
            full = waits(seat.share().charge(&mut charge, BYTES)).await;
            charges.push(charge);
        }
        assert!(full);
        let mut owners = Charge::default();
        shares.seat(OWNER).unwrap().share().charge(&mut owners, BYTES).await.unwrap();
    }

    #[test]
    fn waiting_requests_are_refused_beyond_the_share() {
        let shares = Shares::<(Uid, bool)>::new(448);
        let seat = shares.seat(guest(7)).unwrap();
        let streams: Vec<_> = std::iter::from_fn(|| seat.share().stream().ok()).collect();
        assert_eq!(streams.len(), STREAMS);
        let refused = seat.share().stream().unwrap_err();
        assert_eq!(refused.text, "64 streams of this user are open, as many as may");
        drop(streams);
        assert!(seat.share().stream().is_ok());
    }

    #[test]
    fn requests_of_a_user_come_at_the_rate_after_a_burst() {
        let share = Share::new(None, Arc::new(Semaphore::new(1)));
        let begin = Instant::now();
        let at_once = |now| (0..1000).take_while(|_| share.pace(now, 10.0).is_zero()).count();
        assert_eq!(at_once(begin), 11, "a second's worth, and one that is due now");
        // The request that ended the burst waits, and has used up its turn already.
        assert_eq!(share.pace(begin, 10.0), Duration::from_millis(200));
        let later = begin + Duration::from_secs(60);
        assert_eq!(at_once(later), 11, "a long pause saves up no more");
    }

    /// Sends requests until one has to wait.
    #[track_caller]
    fn use_burst(seat: &Seat, now: Instant) {
        let waits = (0..1000).any(|_| !seat.share().pace(now, 0.01).is_zero());
        assert!(waits, "a thousand requests were not slowed down");
    }

    #[test]
    fn a_user_who_comes_back_has_no_new_share_of_the_rate() {
        let shares = Shares::<(Uid, bool)>::new(448);
        let seat = shares.seat(guest(7)).unwrap();
        let begin = Instant::now();
        use_burst(&seat, begin);
        drop(seat);
        assert!(!shares.seat(guest(7)).unwrap().share().pace(begin, 0.01).is_zero());
        assert!(shares.seat(guest(8)).unwrap().share().pace(begin, 0.01).is_zero());
        // Users who have waited long enough are forgotten, and the number of those that are remembered is bounded.
        for user in 100..100 + 2 * REMEMBERED as u32 {
            let seat = shares.seat(guest(user)).unwrap();
            use_burst(&seat, begin);
        }
        let mut taken = shares.lock();
        assert!(taken.users.len() <= REMEMBERED, "{}", taken.users.len());
        taken.forget((Uid::new(7), false), begin + Duration::from_secs(3600));
        assert!(taken.users.is_empty());
    }
}
