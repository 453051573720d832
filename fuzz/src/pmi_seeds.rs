//! Seeds of the PMI target, whose module is not in this library.

/// Returns the seeds: conversations with and without an opening, in lines and in messages.
pub fn seeds() -> Vec<Vec<u8>> {
    let lines = |options: u8, lines: &str| [&[options][..], lines.as_bytes()].concat();
    let messages = |options: u8, bodies: &[&str]| {
        let framed = bodies.iter().map(|body| format!("{:>6}{body}", body.len())).collect::<String>();
        lines(options, &framed)
    };
    let spawn = "mcmd=spawn\nnprocs=2\nexecname=X\ntotspawns=2\nspawnssofar=1\nargcnt=1\narg1=a\npreput_num=1\npreput_key_0=k\npreput_val_0=v\ninfo_num=1\ninfo_key_0=wdir\ninfo_val_0=/\nendcmd\nmcmd=spawn\nnprocs=1\nexecname=Y\ntotspawns=2\nspawnssofar=2\nargcnt=0\ninfo_num=0\nendcmd\n";
    let databases = "cmd=get_maxes\ncmd=get_my_kvsname\ncmd=put kvsname=K key=a value=1 2 -\ncmd=get kvsname=K key=a\ncmd=get key=b\ncmd=getbyidx kvsname=K idx=0\ncmd=getbyidx kvsname=K idx=1\ncmd=create_kvs\ncmd=destroy_kvs kvsname=K\n";
    let barriers = "cmd=barrier_in\ncmd=barrier_in group=0,1:7\ncmd=barrier_in group=WORLD:1\ncmd=barrier_in group=NODE\ncmd=barrier_in group=9:1\ncmd=finalize\n";
    let names = "cmd=publish_name service=S port=P\ncmd=lookup_name service=S\ncmd=unpublish_name service=S\ncmd=get_appnum\ncmd=get_universe_size\n";
    let values = [
        "cmd=fullinit;pmirank=1;threaded=FALSE;",
        "cmd=job-getid;thrid=0x1;",
        "cmd=kvs-put;key=a;value=x;;y;",
        "cmd=kvs-get;jobid=kvs_x_3;srcid=0;key=a;",
        "cmd=kvs-fence;",
        "cmd=info-getjobattr;key=universeSize;",
        "cmd=finalize;",
    ];
    let others = [
        "cmd=info-getnodeattr;thrid=1;key=a;wait=TRUE;",
        "cmd=info-putnodeattr;key=a;value=1;",
        "cmd=name-publish;name=S;port=P;",
        "cmd=name-lookup;name=S;",
        "cmd=name-unpublish;name=S;",
        "cmd=job-connect;jobid=kvs_x_3;",
        "cmd=job-disconnect;jobid=J;",
        "cmd=ring;count=1;",
    ];
    let starts = "cmd=spawn;thrid=2;ncmds=2;preputcount=1;ppkey0=k;ppval0=v;subcmd=X;maxprocs=2;argc=1;argv0=a;infokeycount=1;infokey0=wdir;infoval0=/;subcmd=Y;maxprocs=1;argc=0;";
    let mut all = vec![
        lines(8, databases),
        lines(72, databases),
        lines(8, barriers),
        lines(136, barriers),
        lines(8, names),
        lines(72, names),
        lines(8, spawn),
        lines(72, spawn),
        lines(8, "cmd=abort exitcode=42 message=a b\nmore lines\ncmd=get_maxes\n"),
        lines(
            0,
            "cmd=init pmi_version=3 pmi_subversion=0\ncmd=init pmi_version=1 pmi_subversion=1\ncmd=barrier_in\n",
        ),
        lines(32, "cmd=initack pmiid=7\ncmd=init pmi_version=1 pmi_subversion=1\ncmd=finalize\n"),
        lines(32, "cmd=initack pmiid=8\n"),
        messages(16, &values),
        messages(80, &values),
        messages(16, &others),
        messages(144, &others),
        messages(16, &[starts]),
        messages(80, &[starts]),
        messages(48, &["cmd=fullinit;pmirank=7;", "cmd=finalize;"]),
        messages(16, &["cmd=abort;isworld=FALSE;", "cmd=abort;exitcode=9;message=m;"]),
        lines(16, "13    cmd=finalize;000013cmd=finalize;"),
        lines(24, "999999cmd="),
    ];
    // The same text in pieces.
    all.push([&[8 | 2, 3, 40][..], databases.as_bytes()].concat());
    all.push([&[8 | 1, 6][..], spawn.as_bytes()].concat());
    all
}
