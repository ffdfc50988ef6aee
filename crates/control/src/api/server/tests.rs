use super::*;

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
