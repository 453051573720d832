//! The encodings of a domain's types: the order of the fields, and the number of each variant. The meaning of a number
//! never changes.

use chained_gpc::wire::fields::{Fields, FieldsError as CodecError};

use super::bytes::{Coded, Writer};
use crate::exit::{Death, Exit};
use crate::fault::{Fault, FaultKind};
use crate::limits::Limits;
use crate::names::{GroupId, Member, Set};
use crate::order::{Brought, Choice, Entry, Meeting, Order, Purpose, Report, Stamp};
use crate::request::{Answer, Client, GroupState, GroupStatus, Identity, MemberStatus, Pair, Request};
use crate::roster::{Roster, Span, check_spans};
use crate::spec::{Block, Layout, Mpi, OnDeath, PmixHost, PmixNeed, PmixPlan, Readers, Spec};
use crate::start_error::StartError;

/// Implements the encoding of a struct: its fields, in this order.
macro_rules! record {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl Coded for $type {
            fn put(&self, out: &mut Writer) {
                $(self.$field.put(out);)+
            }

            fn get(bytes: &mut Fields<'_>) -> Result<Self, CodecError> {
                Ok($type { $($field: Coded::get(bytes)?),+ })
            }
        }
    };
}

/// Implements the encoding of an enum: the number of the variant, then its fields.
macro_rules! choice {
    ($type:ident, $unknown:literal, {
        $($number:literal = $variant:ident $(($($place:ident),+))? $({$($field:ident),+})?,)+
    }) => {
        impl Coded for $type {
            fn put(&self, out: &mut Writer) {
                match self {
                    $($type::$variant $(($($place),+))? $({$($field),+})? => {
                        u8::put(&$number, out);
                        $($($place.put(out);)+)?
                        $($($field.put(out);)+)?
                    })+
                }
            }

            fn get(bytes: &mut Fields<'_>) -> Result<Self, CodecError> {
                match u8::get(bytes)? {
                    $($number => {
                        $($(let $place = Coded::get(bytes)?;)+)?
                        $($(let $field = Coded::get(bytes)?;)+)?
                        Ok($type::$variant $(($($place),+))? $({$($field),+})?)
                    })+
                    _ => Err(CodecError::Field($unknown)),
                }
            }
        }
    };
}

impl Coded for GroupId {
    fn put(&self, out: &mut Writer) {
        self.0.put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<GroupId, CodecError> {
        u32::get(bytes).map(GroupId)
    }
}

record!(Member { group, rank });
choice!(Set, "there is no such set", {
    0 = Group(group),
    1 = Members(members),
});

choice!(Exit, "a process ends in no such way", {
    0 = Code(code),
    1 = Signal(signal),
    2 = Node(node),
    3 = Never,
    4 = OutOfMemory,
});
record!(Death { member, exit, finalized });

impl Coded for FaultKind {
    fn put(&self, out: &mut Writer) {
        self.number().put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<FaultKind, CodecError> {
        FaultKind::of_number(u32::get(bytes)?).ok_or(CodecError::Field("there is no such fault"))
    }
}

record!(StartError { errno, status, host, why });
record!(Fault { kind, message, deaths, node, missing });
record!(Pair { key, value });
record!(Spec { count, program, args, env, info });
choice!(OnDeath, "a death means no such thing for a group", {
    0 = Kill,
    1 = Notify,
});
choice!(Readers, "no processes read like that", {
    0 = None,
    1 = First,
    2 = All,
    3 = Rank(rank),
});
record!(Block { node, spec, first, count });
choice!(PmixNeed, "processes need PMIx in no such way", {
    0 = No,
    1 = Maybe,
    2 = Sure,
});
record!(PmixHost { node, name, before });
record!(PmixPlan { required, hosts });
record!(Mpi { open, library });

/// Decoding checks that the ranks have no gap and that each block refers to an existing spec. Users of a layout may
/// rely on both.
impl Coded for Layout {
    fn put(&self, out: &mut Writer) {
        let Layout { group, parent, database, specs, blocks, on_death, preputs, input, pmix } = self;
        group.put(out);
        parent.put(out);
        database.put(out);
        specs.put(out);
        blocks.put(out);
        on_death.put(out);
        preputs.put(out);
        input.put(out);
        pmix.put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Layout, CodecError> {
        let layout = Layout {
            group: Coded::get(bytes)?,
            parent: Coded::get(bytes)?,
            database: Coded::get(bytes)?,
            specs: Coded::get(bytes)?,
            blocks: Coded::get(bytes)?,
            on_death: Coded::get(bytes)?,
            preputs: Coded::get(bytes)?,
            input: Coded::get(bytes)?,
            pmix: Coded::get(bytes)?,
        };
        let mut size = 0_u32;
        for block in &layout.blocks {
            if block.first != size || block.count == 0 || block.spec as usize >= layout.specs.len() {
                return Err(CodecError::Field("the blocks of a group do not follow each other"));
            }
            size = size.checked_add(block.count).ok_or(CodecError::Field("a group has too many ranks"))?;
        }
        Ok(layout)
    }
}

record!(Span { group, first, count });

/// Decoding checks the spans, so that users of a roster may rely on what it promises.
impl Coded for Roster {
    fn put(&self, out: &mut Writer) {
        self.group.put(out);
        self.database.put(out);
        self.spans.put(out);
    }

    fn get(bytes: &mut Fields<'_>) -> Result<Roster, CodecError> {
        let roster =
            Roster { group: Coded::get(bytes)?, database: Coded::get(bytes)?, spans: Coded::get(bytes)? };
        check_spans(&roster.spans).map_err(CodecError::Field)?;
        Ok(roster)
    }
}

choice!(Client, "there is no such client", {
    0 = Process(member),
    1 = Tool(number),
});
choice!(Request, "there is no such request", {
    0 = Init,
    1 = Finalize,
    2 = Size(group),
    3 = Open { over, limit },
    4 = Spawn { group, specs, preputs, on_death },
    5 = Close { over, group, limit },
    6 = SpawnMultiple { specs, preputs, on_death, input },
    7 = Merge { first, second, limit },
    8 = Free(group),
    9 = Kill(group),
    10 = Status(group),
    11 = Groups,
    12 = Subscribe(group),
    13 = Create(name),
    14 = Destroy(name),
    15 = Databases,
    16 = Put { database, pair, advice },
    17 = Get { database, key },
    18 = Iterate(database),
    19 = Deposit(pair),
    20 = Withdraw(name),
    21 = Lookup { name, wait },
    22 = Fence { over, limit, tag },
    23 = Abort { code, message },
    24 = Limits,
    25 = Exchange { over, limit, tag, data },
    26 = Fetch(member),
    27 = Layout(group),
    28 = Members(group),
    29 = Split { group, color, key, limit },
});

record!(MemberStatus { rank, node, pid, death });
choice!(GroupState, "a group is in no such state", {
    0 = Open,
    1 = Starting,
    2 = Running,
    3 = Killed,
    4 = Ended,
    5 = Derived,
});
record!(GroupStatus { group, parent, state, database, program, age, members });
record!(Identity { member, size, parent, database, spec, neighbours });
choice!(Answer, "there is no such answer", {
    0 = Done,
    1 = Identity(identity),
    2 = Number(number),
    3 = Group(group),
    4 = Spawned { group, errors, same_domain },
    5 = Name(name),
    6 = Names(names),
    7 = Value(value),
    8 = Pairs(pairs),
    9 = Groups(groups),
    10 = Limits(limits),
    11 = Layout(layout),
    12 = Rosters(rosters),
});
record!(Limits {
    key,
    value,
    name,
    database,
    databases,
    names,
    group,
    groups,
    spawn,
    waiting,
    fence,
    ask,
    grace,
});

record!(Meeting { set, tag, epoch });
choice!(Purpose, "a meeting has no such purpose", {
    0 = Fence,
    1 = Open,
    2 = Close(group),
    3 = Merge(first, second),
    4 = Split,
});
record!(Stamp { clock, member, number });
record!(Entry { database, pair, stamp });
record!(Choice { member, color, key });
record!(Brought { entries, after, data });
choice!(Order, "there is no such order", {
    0 = Begin { nodes, limits },
    1 = Watch,
    2 = Enter { meeting, purpose },
    3 = Collect { meeting, purpose },
    4 = Release { meeting, deaths, outcome },
    5 = Fail { meeting, fault },
    6 = Start(layout),
    7 = Kill(group),
    8 = Signal(group, signal),
    9 = Forget(group),
    10 = Died(deaths),
    11 = Lost(nodes),
    12 = Find { database, key },
    13 = List(database),
    14 = Destroyed(database),
    15 = AtHead { client, request },
    16 = Status(group),
    17 = End,
    18 = Check(layout),
    19 = Missing { meeting, purpose },
    20 = Fetch(member),
});
choice!(Report, "there is no such report", {
    0 = Done,
    1 = Entries(brought, choices),
    2 = Started(ranks),
    3 = Found(value),
    4 = Pairs(pairs),
    5 = Answer(answer),
    6 = Groups(groups),
    7 = NotStarted(failed),
    8 = Missing(members, more),
    9 = Host(host),
    11 = Checked { port, pmix, mpi },
});
