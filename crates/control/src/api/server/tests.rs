use super::*;

#[test]
fn the_user_of_the_node_and_root_are_let_in_and_nobody_else() {
    assert_eq!(refusal(Some(&Peer { uid: 1000 }), 1000), None);
    assert_eq!(refusal(Some(&Peer { uid: 0 }), 1000), None);
    let refused = refusal(Some(&Peer { uid: 1001 }), 1000).unwrap();
    assert_eq!(
        (refused.status, refused.detail.as_str()),
        (403, "this node belongs to user 1000, you are user 1001")
    );
    assert!(refused.hint.is_some());
    assert_eq!(
        refusal(Some(&Peer { uid: 1000 }), 0).unwrap().status,
        403,
        "a node of root is for root alone"
    );
    assert_eq!(refusal(None, 0).unwrap().status, 403);
}

#[test]
fn a_socket_of_a_dead_node_is_replaced_and_one_of_a_living_node_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(SOCKET_FILE);
    let living = bind(&path).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let said = bind(&path).unwrap_err().to_string();
    assert!(said.starts_with("another node answers on ") && said.contains("hint:"), "{said}");
    drop(living);
    assert!(path.exists(), "as a node that was killed leaves it");
    drop(bind(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "dear friend").unwrap();
    assert!(matches!(bind(&path), Err(ApiError::NotASocket { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"dear friend");
}

#[test]
fn a_directory_with_a_long_name_has_a_socket_too() {
    let directory = tempfile::tempdir().unwrap();
    let deep = directory.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let path = deep.join(SOCKET_FILE);
    let listener = bind(&path).unwrap();
    assert!(path.exists());
    let (address, _open) = address(&path).unwrap();
    StdStream::connect(address).unwrap();
    listener.accept().unwrap();
}
