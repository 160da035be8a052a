//! Counts numbers from two threads, and looks some up.
mod gpuhash;

fn main() -> Result<(), gpuhash::Error> {
    let counts = gpuhash::Table::new("linear_probe", 100)?;
    let seen: [&[u64]; 2] = [&[3, 1, 4, 1, 5], &[9, 2, 6, 5, 3, 5]];
    std::thread::scope(|scope| {
        let threads = seen.map(|part| scope.spawn(|| counts.count(part)));
        threads.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })?;

    let wanted = [5, 7];
    for (key, times) in wanted.iter().zip(counts.find(&wanted)?) {
        match times {
            Some(times) => println!("{key}: found {times}"),
            None => println!("{key}: absent 0"),
        }
    }
    println!("{} distinct", counts.len()?);

    match gpuhash::Table::new("linear_prob", 100) {
        Err(error) if error.code == gpuhash::NOT_FOUND => println!("{error}"),
        other => return other.map(|_| ()),
    }
    Ok(())
}
