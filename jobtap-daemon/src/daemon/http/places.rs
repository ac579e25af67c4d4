//! The places of connections: each new client gets one, and if there is none left, the connection that needs its place
//! least gives way.
//!
//! A connection counts as one with the token while its last request had it. Clients without the token have not proved
//! who they are, and all of them may be one client: none of them is safe from giving way, and they can't take the
//! places of those with the token. Clients with the token leave an eighth of the places to the others, so that a new
//! client always gets in: to send its first request, or to ask whether the manager is healthy. Behind a proxy all
//! clients have one address, so nothing here relies on addresses alone.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::job::Uid;
use rustc_hash::FxHashMap;
use tokio::sync::{Notify, oneshot};

use super::guard::Client;
use crate::rpc::RpcError;
use crate::rpc::errno::EAGAIN;

/// How many streams clients without the token may have together.
const STREAMS: usize = 64;

/// What identifies clients that may be one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Origin {
    /// The address of a host; for IPv6, only the part that a host can't choose.
    Address(IpAddr),
    /// The user on the other end of a Unix socket.
    User(Uid),
}

impl Origin {
    /// The origin of a client with this address.
    pub(super) fn from_address(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = u128::from(address) & !u128::from(u64::MAX);
                IpAddr::V6(Ipv6Addr::from(network))
            }
            address => address,
        })
    }
}

/// All places.
pub(super) struct Places {
    room: usize,
    taken: Mutex<Taken>,
    /// Notified when a place becomes free.
    freed: Notify,
    begun: Instant,
}

#[derive(Default)]
struct Taken {
    next: u64,
    connections: FxHashMap<u64, Connection>,
}

struct Connection {
    origin: Origin,
    has_token: bool,
    doing: Doing,
    /// When it last read or wrote something, in milliseconds since `Places::begun`.
    moved: Arc<AtomicU64>,
    /// Ends the connection. `None` once that has been done.
    end: Option<oneshot::Sender<()>>,
}

/// What a connection is doing, in the order in which connections give way: first those that are idle, or slow to read
/// their last response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Doing {
    Nothing,
    Request,
    Stream,
}

/// The place of a connection. Dropping it frees the place.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    moved: Arc<AtomicU64>,
}

/// A request that is being carried out, until this is dropped.
pub(super) struct AtWork(Arc<Place>);

/// Resolves when a connection has to give way.
pub(super) type GiveWay = oneshot::Receiver<()>;

impl Places {
    /// Makes places for `room` connections, but at least two: one with and one without the token.
    pub(super) fn new(room: usize) -> Arc<Self> {
        let (taken, freed, begun) = (Mutex::default(), Notify::new(), Instant::now());
        Arc::new(Self { room: room.max(2), taken, freed, begun })
    }

    /// The maximum number of connections with the token.
    fn room_for_tokens(&self) -> usize {
        self.room - (self.room / 8).max(1)
    }

    /// Takes a place for a new connection. If there is no room, another connection gives way to it.
    pub(super) async fn take(self: &Arc<Self>, origin: Origin) -> (Place, GiveWay) {
        loop {
            if let Some(taken) = self.try_take(origin) {
                return taken;
            }
            // The connection that gives way, now or since an earlier attempt, is about to end.
            self.freed.notified().await;
        }
    }

    fn try_take(self: &Arc<Self>, origin: Origin) -> Option<(Place, GiveWay)> {
        let mut taken = self.lock();
        if taken.connections.len() >= self.room {
            if taken.connections.values().all(|connection| connection.end.is_some()) {
                taken.make_way();
            }
            return None;
        }
        let id = taken.next;
        taken.next += 1;
        let (end, give_way) = oneshot::channel();
        let moved = Arc::new(AtomicU64::new(self.now()));
        let connection = Connection {
            origin,
            has_token: false,
            doing: Doing::Nothing,
            moved: Arc::clone(&moved),
            end: Some(end),
        };
        taken.connections.insert(id, connection);
        Some((Place { places: Arc::clone(self), id, moved }, give_way))
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// Ends the connection without the token that needs its place least: of the origin that has most of them, the first
    /// one in the order of [`Doing`], and the one that has not moved for longest among equals. There is one, since
    /// those with the token leave room.
    fn make_way(&mut self) {
        let without = |connection: &Connection| !connection.has_token;
        if let Some(origin) = self.most_frequent(without) {
            self.end_first(|connection| without(connection) && connection.origin == origin);
        }
    }

    /// Returns the origin that has most of these connections.
    fn most_frequent(&self, of: impl Fn(&Connection) -> bool) -> Option<Origin> {
        let mut counts: FxHashMap<Origin, usize> = FxHashMap::default();
        for connection in self.connections.values().filter(|connection| of(connection)) {
            *counts.entry(connection.origin).or_default() += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(origin, _)| origin)
    }

    /// Ends the first of these connections to give way. Returns whether there was one.
    fn end_first(&mut self, of: impl Fn(&Connection) -> bool) -> bool {
        let candidates = self.connections.iter_mut();
        let candidates = candidates.filter(|(_, connection)| of(connection));
        let order = |(id, connection): &(&u64, &mut Connection)| {
            (connection.doing, connection.moved.load(Ordering::Relaxed), **id)
        };
        let Some((_, connection)) = candidates.min_by_key(order) else { return false };
        if let Some(end) = connection.end.take() {
            // Fails if the connection has ended by itself.
            let _ = end.send(());
        }
        true
    }

    fn count(&self, of: impl Fn(&Connection) -> bool) -> usize {
        self.connections.values().filter(|connection| of(connection)).count()
    }
}

impl Place {
    /// Begins a request of this client, which counts until the returned value is dropped.
    ///
    /// # Errors
    /// EAGAIN when the connection is about to give way, or when the maximum number of connections with the token are at
    /// work.
    pub(super) fn begin(self: &Arc<Self>, client: Client) -> Result<AtWork, RpcError> {
        let most = self.places.room_for_tokens();
        self.moved();
        let mut taken = self.places.lock();
        let has_token = client == Client::Owner;
        let others = taken.count(|connection| connection.has_token && connection.end.is_some());
        let Some(own) = taken.connections.get_mut(&self.id).filter(|own| own.end.is_some()) else {
            return Err(RpcError::new(
                EAGAIN,
                "this connection gives way to another one: try again",
            ));
        };
        let had_token = std::mem::replace(&mut own.has_token, has_token);
        own.doing = Doing::Request;
        if has_token && !had_token && others >= most {
            let idle = |other: &Connection| {
                other.has_token && other.doing == Doing::Nothing && other.end.is_some()
            };
            if !taken.end_first(idle) {
                self.stand(&mut taken, false, Doing::Nothing);
                let text = format!(
                    "{most} connections with the token wait for responses or stream, as many as may: close some of \
                     them, or start the manager with a higher limit of open files (LimitNOFILE, or ulimit -n)"
                );
                return Err(RpcError::new(EAGAIN, text));
            }
        }
        drop(taken);
        Ok(AtWork(Arc::clone(self)))
    }

    fn stand(&self, taken: &mut Taken, has_token: bool, doing: Doing) {
        if let Some(own) = taken.connections.get_mut(&self.id) {
            (own.has_token, own.doing) = (has_token, doing);
        }
    }

    /// Whether the last request of the connection had the token.
    pub(super) fn has_token(&self) -> bool {
        let taken = self.places.lock();
        taken.connections.get(&self.id).is_some_and(|own| own.has_token)
    }

    /// Waits until the connection has lived for `life`, or for a multiple of it, and is without the token at that
    /// moment.
    pub(super) async fn grown_old(&self, life: Duration) {
        loop {
            tokio::time::sleep(life).await;
            if !self.has_token() {
                return;
            }
        }
    }

    /// Notes that the connection has read or written something.
    pub(super) fn moved(&self) {
        self.moved.store(self.places.now(), Ordering::Relaxed);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.lock().connections.remove(&self.id);
        self.places.freed.notify_one();
    }
}

impl AtWork {
    /// Notes that the response is a stream. Streams of clients without the token are counted together: at their
    /// maximum, the origin that has most of them loses the one that has not moved for longest to an origin that has
    /// fewer.
    ///
    /// # Errors
    /// EAGAIN when no other origin has at least two streams more than the client's.
    pub(super) fn stream(&self) -> Result<(), RpcError> {
        let Place { places, id, .. } = &*self.0;
        let mut taken = places.lock();
        let streams = |connection: &Connection| {
            !connection.has_token && connection.doing == Doing::Stream && connection.end.is_some()
        };
        let Some(own) = taken.connections.get(id) else { return Ok(()) };
        let (origin, has_token) = (own.origin, own.has_token);
        if !has_token && taken.count(streams) >= STREAMS {
            let of = |origin| move |other: &Connection| streams(other) && other.origin == origin;
            let own = taken.count(of(origin));
            let most = taken.most_frequent(streams);
            let most = most.filter(|most| taken.count(of(*most)) > own + 1);
            let Some(most) = most else {
                let text = format!(
                    "{STREAMS} streams of clients without the token are open, as many as may: close one, or use the \
                     token"
                );
                return Err(RpcError::new(EAGAIN, text));
            };
            taken.end_first(of(most));
        }
        self.0.stand(&mut taken, has_token, Doing::Stream);
        Ok(())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut taken = self.0.places.lock();
        if let Some(own) = taken.connections.get_mut(&self.0.id) {
            own.doing = Doing::Nothing;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> Origin {
        Origin::from_address(IpAddr::from([192, 0, 2, last]))
    }

    /// A connection that can be told to give way.
    struct Visitor {
        place: Arc<Place>,
        give_way: GiveWay,
        at_work: Option<AtWork>,
    }

    impl Visitor {
        /// Whether the connection has to give way.
        fn is_to_end(&mut self) -> bool {
            self.give_way.try_recv().is_ok()
        }

        /// Sets when the connection last moved.
        fn moved_at(&self, time: u64) {
            self.place.moved.store(time, Ordering::Relaxed);
        }

        fn has_token(&self) -> bool {
            self.place.begin(Client::Owner).is_ok() && self.place.has_token()
        }

        fn stream(&self) -> Result<AtWork, RpcError> {
            let at_work = self.place.begin(Client::Reader).unwrap();
            at_work.stream().map(|()| at_work)
        }
    }

    fn connect(places: &Arc<Places>, origin: Origin) -> Option<Visitor> {
        let (place, give_way) = places.try_take(origin)?;
        Some(Visitor { place: Arc::new(place), give_way, at_work: None })
    }

    fn connect_many(places: &Arc<Places>, origin: Origin, count: usize) -> Vec<Visitor> {
        (0..count).map(|_| connect(places, origin).unwrap()).collect()
    }

    /// Connects where there is no room. Returns which of the others has given way.
    fn push(places: &Arc<Places>, origin: Origin, others: &mut Vec<Visitor>) -> (Visitor, usize) {
        assert!(connect(places, origin).is_none());
        let at = others.iter_mut().position(Visitor::is_to_end).unwrap();
        assert!(!others.iter_mut().any(Visitor::is_to_end), "one is enough");
        // Until its end nobody else is asked to give way.
        assert!(connect(places, origin).is_none());
        assert!(!others.iter_mut().any(Visitor::is_to_end));
        others.remove(at);
        (connect(places, origin).unwrap(), at)
    }

    #[test]
    fn what_has_not_moved_for_longest_gives_way() {
        let places = Places::new(16);
        let mut visitors = connect_many(&places, host(1), 16);
        for (at, visitor) in visitors.iter().enumerate() {
            visitor.moved_at(100 + at as u64);
        }
        visitors[7].moved_at(1);
        let (_new, gone) = push(&places, host(1), &mut visitors);
        assert_eq!(gone, 7);
    }

    #[test]
    fn what_is_at_work_gives_way_after_what_is_not() {
        let places = Places::new(4);
        let mut visitors = connect_many(&places, host(1), 4);
        visitors[0].at_work = Some(visitors[0].stream().unwrap());
        for visitor in &mut visitors[1..3] {
            visitor.at_work = Some(visitor.place.begin(Client::Reader).unwrap());
        }
        for (visitor, moved) in visitors.iter().zip([1, 3, 2, 4]) {
            visitor.moved_at(moved);
        }
        let mut gone = Vec::new();
        let mut new = Vec::new();
        for _ in 0..3 {
            let (mut visitor, at) = push(&places, host(1), &mut visitors);
            visitor.at_work = Some(visitor.stream().unwrap());
            new.push(visitor);
            gone.push(at);
        }
        assert_eq!(gone, [3, 2, 1]);
    }

    #[test]
    fn the_origin_with_most_connections_gives_way() {
        let places = Places::new(16);
        let mut visitors = connect_many(&places, host(1), 3);
        visitors.extend(connect_many(&places, host(2), 13));
        visitors[0].moved_at(0);
        visitors[9].moved_at(1);
        for visitor in visitors.iter().skip(1).filter(|visitor| visitor.place.id != 9) {
            visitor.moved_at(2);
        }
        let (_new, gone) = push(&places, host(1), &mut visitors);
        assert_eq!(gone, 9);
    }

    #[test]
    fn clients_without_the_token_take_no_place_of_those_with_it() {
        let places = Places::new(16);
        let with: Vec<Visitor> = connect_many(&places, host(1), 14);
        assert!(with.iter().all(Visitor::has_token));
        let mut others = connect_many(&places, host(1), 2);
        for _ in 0..100 {
            let (new, _) = push(&places, host(1), &mut others);
            others.push(new);
        }
        assert!(with.iter().all(Visitor::has_token), "all are there");
    }

    #[test]
    fn the_token_leaves_an_eighth_of_the_places() {
        let places = Places::new(16);
        let mut visitors = connect_many(&places, host(1), 16);
        let mut at_work: Vec<_> = Vec::new();
        for visitor in visitors.iter().take(14) {
            at_work.push(visitor.place.begin(Client::Owner).unwrap());
        }
        // All of them are at work, so another one is refused, and has a place only as one without the token.
        let refused = visitors[14].place.begin(Client::Owner).err().unwrap();
        assert_eq!(refused.errno, EAGAIN);
        assert!(refused.text.starts_with("14 connections with the token"), "{refused}");
        assert!(!visitors[14].place.has_token());
        // One that is idle gives way.
        at_work.remove(5);
        let _more = visitors[14].place.begin(Client::Owner).unwrap();
        assert!(visitors[5].is_to_end());
    }

    #[test]
    fn a_connection_that_gives_way_begins_nothing() {
        let places = Places::new(2);
        let visitors = connect_many(&places, host(1), 2);
        visitors[0].moved_at(0);
        visitors[1].moved_at(1);
        assert!(connect(&places, host(1)).is_none());
        assert_eq!(visitors[0].place.begin(Client::Owner).err().unwrap().errno, EAGAIN);
        assert!(visitors[1].place.begin(Client::Owner).is_ok());
    }

    #[test]
    fn a_place_counts_as_its_last_request_does() {
        let places = Places::new(4);
        let visitor = connect(&places, host(1)).unwrap();
        assert!(visitor.has_token());
        drop(visitor.place.begin(Client::Reader).unwrap());
        assert!(!visitor.place.has_token());
    }

    #[tokio::test]
    async fn a_connection_without_the_token_has_an_end() {
        let places = Places::new(4);
        let visitor = connect(&places, host(1)).unwrap();
        let life = Duration::from_millis(5);
        visitor.place.grown_old(life).await;
        assert!(visitor.has_token());
        let old = tokio::time::timeout(20 * life, visitor.place.grown_old(life)).await;
        assert!(old.is_err(), "with the token it has none");
    }

    #[test]
    fn streams_without_the_token_are_shared_between_origins() {
        let places = Places::new(256);
        let mut first = connect_many(&places, host(1), STREAMS + 1);
        let mut streams: Vec<AtWork> = Vec::new();
        for visitor in first.iter().take(STREAMS) {
            streams.push(visitor.stream().unwrap());
        }
        // The host has the maximum number of streams, so its own next one is refused.
        let refused = first[STREAMS].stream().err().unwrap();
        assert!(refused.text.starts_with("64 streams of clients without the token"), "{refused}");
        // Another host has half of them in the end.
        let second = connect_many(&places, host(2), STREAMS);
        for visitor in &second {
            streams.extend(visitor.stream());
        }
        let gone = first.iter_mut().filter_map(|visitor| visitor.is_to_end().then_some(())).count();
        assert_eq!(gone, STREAMS / 2);
        // Streams with the token don't count among them.
        let with = connect(&places, host(1)).unwrap();
        let at_work = with.place.begin(Client::Owner).unwrap();
        assert!(at_work.stream().is_ok());
    }

    #[test]
    fn an_origin_is_a_host_and_not_what_it_chooses() {
        let of = |text: &str| Origin::from_address(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
        assert_ne!(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
        assert_eq!(of("::ffff:192.0.2.1"), host(1));
        assert_ne!(host(1), host(2));
    }
}
