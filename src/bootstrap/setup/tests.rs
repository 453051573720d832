//! Results of exchanges of a program's own.

use super::*;

fn entry(host: &str) -> Entry {
    format!("1,{host},0123456789abcdef,-,unix:@{host}").parse().unwrap()
}

fn common(byte: u8) -> Common {
    Common { job: Job([byte; 16]), secret: Secret::new(&[byte; 32]).unwrap() }
}

/// What process `id`, whose entry is that of host `id`, makes of these texts.
fn gathered(id: Id, texts: &[String]) -> Result<(Common, BTreeMap<Id, Entry>), String> {
    let all: Vec<Vec<u8>> = texts.iter().map(|text| text.clone().into_bytes()).collect();
    let drawn = (id == 0).then(|| common(1));
    gather(Box::new(move |_| Ok(all)), id, 3, &entry(&id.to_string()), drawn)
        .map_err(|error| error.to_string())
}

/// The texts of three processes; id 0 has drawn the job and the secret.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = (0..3).map(|id| entry(&id.to_string()).to_string()).collect();
    texts[0] = format!("{} {}", texts[0], common(1).to_text().as_str());
    texts
}

#[test]
fn the_texts_of_all_are_taken_by_id_and_id_0_has_the_secret() {
    for id in 0..3 {
        let (common_to_all, entries) = gathered(id, &texts()).unwrap();
        assert_eq!(common_to_all, common(1));
        assert_eq!(entries, (0..3).map(|id| (id, entry(&id.to_string()))).collect());
        // Another process cannot replace the secret.
        let mut lying = texts();
        lying[2] = format!("{} {}", lying[2], common(2).to_text().as_str());
        assert_eq!(gathered(id, &lying).unwrap().0, common(1));
        lying[0] = entry("0").to_string();
        if id > 0 {
            assert_eq!(
                gathered(id, &lying).unwrap_err(),
                "what id 0 says of itself is of no use: it names no job"
            );
        }
    }
}

#[test]
fn texts_that_cannot_be_are_refused() {
    let refused = |change: fn(&mut Vec<String>)| {
        let mut texts = texts();
        change(&mut texts);
        gathered(1, &texts).unwrap_err()
    };
    assert!(refused(|texts| texts.swap(1, 2)).ends_with("what id 1 has given is not at its place"));
    assert!(refused(|texts| drop(texts.pop())).ends_with("what 2 processes say, and there are 3"));
    assert!(refused(|texts| texts.push(String::new())).ends_with("what 4 processes say, and there are 3"));
    assert!(refused(|texts| texts[2] = "x".into()).starts_with("what id 2 says of itself is of no use"));
    assert!(refused(|texts| texts[0].push('x')).starts_with("what id 0 says of itself is of no use"));
}

#[test]
fn an_id_is_below_the_number_of_processes() {
    let bootstrap = |id, count| Bootstrap::with_allgather(id, count, |_| Err::<Vec<Vec<u8>>, _>("never"));
    let right = bootstrap(2, 3).unwrap();
    assert_eq!((right.id(), right.count(), right.launcher()), (Some(2), Some(3), "allgather"));
    for (id, count) in [(3, 3), (0, 0)] {
        assert!(
            bootstrap(id, count).unwrap_err().to_string().contains(&format!("this is id {id} of {count}"))
        );
    }
    // The time that has passed before is a part of the limit.
    assert_eq!(right.limit(LIMIT * 2).limit, LIMIT * 2);
}
