//! Scenarios of connections: what one may take from the others, and what remains of it when it is gone.
#![cfg(test)]

use super::*;

const CLIENT: u64 = 1;
const OTHER: u64 = 2;

fn wait_for(task: TaskId) -> Request {
    Request::Query(filter(words::TASK_ID, &task.to_string()), Some(INTERVAL))
}

/// A search that has to look at every task.
fn search() -> Request {
    Request::Query(Filter::new(&Fields::new().with("no", "such")), None)
}

fn is_limit(answer: &Answer) -> bool {
    matches!(answer, Answer::Now(Reply::Refused(refusal)) if refusal.code == Code::LimitReached)
}

/// A world with more tasks than one turn looks at. Without the checks of `settle` after each submit.
fn crowded(tasks: usize) -> World {
    let mut world = World::with(|settings| settings.waiting_max = 100_000);
    for _ in 0..tasks {
        let ticket = world.ticket();
        let fields = Fields::new().with(words::OPERATION, "t").with(words::GIVEN_ID, "namesake");
        let body = json::to_vec(&fields.with(words::TYPE, TASK_SUBMIT.word));
        let Ok((_, Message::Client(submit))) = requests::parse(&body, &rules()) else { panic!() };
        let _ = world.controller.handle_request(world.now, ticket, submit);
        while world.controller.poll_effect().is_some() {}
    }
    world
}

/// One turn of the controller without a request.
fn turn(world: &mut World) -> Vec<Ticket> {
    world.controller.handle_timeout(world.now);
    world.settle();
    std::mem::take(&mut world.replies).into_iter().map(|(ticket, _)| ticket).collect()
}

#[test]
fn a_connection_parks_a_tenth_of_the_places() {
    let mut world = World::with(|settings| settings.parked_max = 30);
    let task = world.task();
    for _ in 0..3 {
        assert_eq!(world.ask_by(CLIENT, wait_for(task)).1, Answer::Later);
    }
    let (_, refused) = world.ask_by(CLIENT, wait_for(task));
    assert!(is_limit(&refused), "{refused:?}");
    for connection in OTHER..OTHER + 9 {
        assert_eq!(world.ask_by(connection, wait_for(task)).1, Answer::Later, "the others have theirs");
    }
}

#[test]
fn all_places_may_be_taken_by_many_connections() {
    let mut world = World::with(|settings| settings.parked_max = 3);
    let task = world.task();
    for connection in 1..=3 {
        assert_eq!(world.ask_by(connection, wait_for(task)).1, Answer::Later);
    }
    assert!(is_limit(&world.ask_by(4, wait_for(task)).1));
}

/// Security: a client that parked as much as it may and has gone must not keep others from waiting.
#[test]
fn what_a_connection_has_parked_goes_with_it() {
    let mut world = World::with(|settings| settings.parked_max = 20);
    let task = world.task();
    let parked: Vec<Ticket> = (0..2).map(|_| world.ask_by(CLIENT, wait_for(task)).0).collect();
    let (other, _) = world.ask_by(OTHER, wait_for(task));
    assert_eq!(world.controller.handle_disconnected(ConnectionId { door: 0, number: CLIENT }), parked);
    world.settle();
    assert_eq!(world.controller.handle_disconnected(ConnectionId { door: 0, number: CLIENT }), []);
    for _ in 0..2 {
        assert_eq!(world.ask_by(CLIENT, wait_for(task)).1, Answer::Later, "the places are free");
    }
    assert!(world.controller.handle_disconnected(ConnectionId { door: 0, number: CLIENT }).len() == 2);
    world.kill(task);
    assert_eq!(world.replies.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [other]);
}

/// The answer would find no peer, and the task would wait in vain for the next message of another agent.
#[test]
fn an_agent_whose_connection_is_gone_is_not_parked() {
    let mut world = World::new();
    let first = world.ticket_of(CLIENT);
    let sender = Sender::new(AgentId::new("a").unwrap(), Session(1));
    let apply = || FromAgent::Apply(Some(INTERVAL));
    assert_eq!(world.controller.handle_agent(world.now, first, &sender, apply()), Answer::Later);
    let second = world.park("b");
    assert_eq!(world.controller.handle_disconnected(ConnectionId { door: 0, number: CLIENT }), [first]);
    world.settle();
    let task = world.task();
    let assigned = |(ticket, reply): &(Ticket, Reply)| matches!(reply, Reply::Assigned(_, _)).then_some(*ticket);
    assert_eq!(world.replies.iter().filter_map(assigned).collect::<Vec<_>>(), [second]);
    // The agent is equal to others again when it asks by another connection; the closed one does not matter any more.
    let again = world.ticket_of(OTHER);
    assert_eq!(world.controller.handle_agent(world.now, again, &sender, apply()), Answer::Later);
    world.settle();
    assert_eq!(world.controller.handle_disconnected(ConnectionId { door: 0, number: CLIENT }), []);
    let _ = (task, world.task());
    assert_eq!(world.replies.iter().filter_map(assigned).collect::<Vec<_>>(), [second, again]);
}

#[test]
fn the_searches_of_a_connection_go_with_it() {
    let mut world = crowded(5_000);
    let (gone, _) = world.ask_by(CLIENT, search());
    let (stays, _) = world.ask_by(OTHER, search());
    assert_eq!(world.controller.handle_disconnected(ConnectionId { door: 0, number: CLIENT }), [gone]);
    world.pass(Duration::from_millis(1));
    assert_eq!(world.replies.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [stays]);
}

/// One connection asks as much as it may, another one once (docs/design/hazards.md, W11). The turns alternate, so the answer to the
/// other one takes twice as many turns as it would alone.
#[test]
fn the_searches_of_one_connection_do_not_hold_up_another_one() {
    let mut world = crowded(10_000);
    let own = |world: &mut World| {
        let (ticket, answer) = world.ask_by(OTHER, search());
        assert_eq!(answer, Answer::Later);
        (1..).find(|_| turn(world).contains(&ticket)).unwrap()
    };
    let alone = own(&mut world);
    assert!(alone >= 4, "a turn looks at a slice");
    let first = world.ask_by(CLIENT, search()).0;
    assert_eq!(world.ask_by(CLIENT, search()).1, Answer::Later);
    let refused = world.ask_by(CLIENT, search()).1;
    assert!(is_limit(&refused), "a connection has a tenth of the searches: {refused:?}");
    assert!(format!("{refused:?}").contains("SEARCHES_MAX"), "{refused:?}");
    assert!(own(&mut world) <= 2 * alone + 2);
    assert!(!turn(&mut world).contains(&first), "it has been answered long ago, first come");
}

/// A request that names its task, or a name that few tasks have, is not a search.
#[test]
fn light_requests_are_answered_at_once_among_heavy_ones() {
    let mut world = crowded(10_000);
    let light = world.submitted(&Fields::new().with(words::GIVEN_ID, "rare"));
    for _ in 0..2 {
        assert_eq!(world.ask_by(CLIENT, search()).1, Answer::Later);
    }
    for _ in 0..50 {
        let by_id = world.ask_by(OTHER, Request::Query(filter(words::TASK_ID, &light.to_string()), None)).1;
        assert!(matches!(by_id, Answer::Now(Reply::Task { .. })), "{by_id:?}");
    }
    let by_name = world.ask_by(OTHER, Request::Query(filter(words::GIVEN_ID, "rare"), None)).1;
    assert!(matches!(by_name, Answer::Now(Reply::Task { .. })), "{by_name:?}");
    assert!(matches!(world.ask_by(OTHER, Request::TaskStatistic).1, Answer::Now(_)));
    assert!(matches!(world.ask_by(OTHER, Request::AgentQuery).1, Answer::Now(_)));
}

/// Requests that cost more than a turn: a name that all tasks have, pages of tasks and agents, explanations.
#[test]
fn no_request_gets_more_than_its_turn() {
    let mut world = crowded(10_000);
    let newest = filter(words::GIVEN_ID, "namesake");
    let none = Fields::new().with(words::GIVEN_ID, "namesake").with("no", "such");
    let page = Page { offset: 9_000, limit: None };
    for heavy in [
        Request::Query(newest.clone(), None),
        Request::Explain(Filter::new(&none)),
        Request::TaskDetails(Filter::default(), page),
        Request::TaskDetails(newest.clone(), page),
    ] {
        let (ticket, answer) = world.ask_by(CLIENT, heavy.clone());
        assert_eq!(answer, Answer::Later, "{heavy:?}");
        assert!((1..).find(|_| turn(&mut world).contains(&ticket)).unwrap() >= 4, "{heavy:?}");
    }
    // Requests that each fit into a turn do not fit all together.
    let mut later = 0;
    let ticket = world.ticket_of(CLIENT);
    for number in 0..20 {
        let ticket = Ticket { number: ticket.number + number, ..ticket };
        let answer = world.controller.handle_request(world.now, ticket, Request::Explain(newest.clone()));
        later += usize::from(answer == Answer::Later || is_limit(&answer));
    }
    assert!(later >= 15, "{later} of 20 explanations wait for another turn");
}
