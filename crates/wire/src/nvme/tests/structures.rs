use proptest::prelude::*;

use crate::nvme::admin::identify::*;
use crate::nvme::admin::log::*;
use crate::nvme::fabrics::{Capabilities, ConnectData, ControllerConfiguration, ControllerStatus, Shutdown};
use crate::nvme::layout::Field;
use crate::nvme::nqn::{self, DISCOVERY_NQN, NqnError, NqnField};
use crate::nvme::text::Text;

#[test]
fn names_are_checked() {
    for name in [
        DISCOVERY_NQN,
        "nqn.2026-11.internal.fels:demo",
        "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ] {
        assert_eq!(nqn::check(name), Ok(()), "{name}");
        assert_eq!(NqnField::new(name).name(), Ok(name));
    }
    for (name, error) in [
        ("", NqnError::Length(0)),
        ("nqn.2026-13.x:y", NqnError::Form),
        ("nqn.20x6-11.x:y", NqnError::Form),
        ("nqn.2026-11.", NqnError::Form),
        ("nqn.2026-11", NqnError::Form),
        ("iqn.2026-11.internal.fels:demo", NqnError::Form),
        ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bg6", NqnError::Form),
        ("nqn.2026-11.internal fels", NqnError::Character),
        ("nqn.2026-11.internal\u{7f}", NqnError::Character),
    ] {
        assert_eq!(nqn::check(name), Err(error), "{name}");
    }
    assert_eq!(nqn::check(&format!("nqn.2026-11.x:{}", "y".repeat(210))), Err(NqnError::Length(224)));
    assert_eq!(NqnField([b'n'; 256]).text(), Err(NqnError::NotText));
    assert_eq!(NqnField([b'n'; 256].map(|_| 0)).text(), Err(NqnError::Length(0)));
}

#[test]
fn connect_data_lies_where_the_standard_says() {
    let data = ConnectData {
        hostid: [7; 16],
        cntlid: 0xffff,
        subnqn: NqnField::new("nqn.2026-11.a:s"),
        hostnqn: NqnField::new("nqn.2026-11.a:h"),
    };
    let mut bytes = [0xff; 1024];
    data.encode(&mut bytes);
    assert_eq!((bytes[15], bytes[16], bytes[17], bytes[18]), (7, 0xff, 0xff, 0));
    assert_eq!(&bytes[256..272], b"nqn.2026-11.a:s\0");
    assert_eq!(&bytes[512..528], b"nqn.2026-11.a:h\0");
    assert_eq!(ConnectData::decode(&bytes), data);
}

#[test]
fn registers_have_their_bits() {
    let capabilities = Capabilities::default()
        .with_mqes(1023)
        .with_cqr(1)
        .with_to(30)
        .with_css(1)
        .with_crms(1)
        .with_mpsmax(4);
    assert_eq!(capabilities.0, 1023 | 1 << 16 | 30 << 24 | 1 << 37 | 4 << 52 | 1 << 59);
    assert_eq!((capabilities.mqes(), capabilities.to()), (1023, 30));
    assert_eq!(capabilities.with_mqes(0x1_0001).mqes(), 1);
    let configuration = ControllerConfiguration(0x0046_4001);
    assert_eq!((configuration.en(), configuration.iosqes(), configuration.iocqes()), (1, 6, 4));
    assert_eq!(configuration.shutdown(), Shutdown::Normal);
    assert_eq!(ControllerConfiguration::ENABLED.0, 0x0046_0001);
    assert_eq!(ControllerStatus::default().with_rdy(1).with_shst(2).0, 0b1001);
}

#[test]
fn the_controllers_facts_lie_where_the_standard_says() {
    let controller = IdentifyController {
        vid: 0x1b36,
        sn: Text::new("S1"),
        mn: Text::new("Fels"),
        fr: Text::new("0.1"),
        mdts: 8,
        cntlid: 0x0102,
        ver: crate::nvme::VERSION_2_1,
        cntrltype: ControllerType::IO,
        kas: 10,
        sqes: 0x66,
        cqes: 0x44,
        maxcmd: 1024,
        nn: 1,
        oncs: OptionalCommands::COMPARE | OptionalCommands::COPY,
        fuses: FusedOperations::COMPARE_AND_WRITE,
        vwc: VolatileWriteCacheAttributes::PRESENT | VolatileWriteCacheAttributes::FLUSH_ALL,
        sgls: SglSupport::SUPPORTED | SglSupport::OFFSET | SglSupport::TRANSPORT,
        subnqn: NqnField::new("nqn.2026-11.a:s"),
        iorcsz: 1,
        msdbd: 1,
        ..IdentifyController::default()
    }
    .with_in_capsule_data(8192);
    let mut bytes = [0xff; 4096];
    controller.encode(&mut bytes);
    assert_eq!(&bytes[..2], [0x36, 0x1b]);
    assert_eq!(&bytes[4..24], b"S1                  ");
    assert_eq!(&bytes[64..72], b"0.1     ");
    assert_eq!((bytes[77], bytes[78], bytes[79], bytes[111]), (8, 2, 1, 1));
    assert_eq!(&bytes[80..84], [0, 1, 2, 0]);
    assert_eq!((bytes[320], bytes[512], bytes[513], bytes[515], bytes[516]), (10, 0x66, 0x44, 4, 1));
    assert_eq!((&bytes[520..524], bytes[525]), (&[1, 1, 1, 0][..], 7));
    assert_eq!(&bytes[536..540], [1, 0, 0x30, 0]);
    assert_eq!(&bytes[768..774], b"nqn.20");
    assert_eq!(&bytes[1792..1804], [4, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(IdentifyController::decode(&bytes), controller);
    assert_eq!((controller.in_capsule_data(), IdentifyController::default().in_capsule_data()), (8192, 0));
    assert_eq!(controller.sn.as_str(), Some("S1"));
}

#[test]
fn a_namespaces_facts_lie_where_the_standard_says() {
    let namespace = IdentifyNamespace {
        nsze: 1 << 33,
        ncap: 1 << 33,
        nuse: 5,
        nsfeat: NamespaceFeatures::THIN_PROVISIONING | NamespaceFeatures::OPTIMAL_SIZES,
        dlfeat: DeallocateFeatures::default().with_reads_as(1).with_write_zeroes(1),
        nmic: 1,
        npwg: 7,
        mssrl: 128,
        mcl: 1024,
        msrc: 15,
        anagrpid: 1,
        nguid: [9; 16],
        lbaf: LbaFormats::one(LbaFormat { ms: 0, lbads: 9, rp: 0 }),
        ..IdentifyNamespace::default()
    };
    let mut bytes = [0xff; 4096];
    namespace.encode(&mut bytes);
    assert_eq!((bytes[4], bytes[16], bytes[24], bytes[30], bytes[33]), (2, 5, 0x11, 1, 9));
    assert_eq!((bytes[64], bytes[74], bytes[77], bytes[80], bytes[92], bytes[104]), (7, 128, 4, 15, 1, 9));
    assert_eq!(&bytes[128..136], [0, 0, 9, 0, 0, 0, 0, 0]);
    assert_eq!(IdentifyNamespace::decode(&bytes), namespace);
    assert_eq!((namespace.block_size(), namespace.metadata_size()), (Some(512), 0));
}

#[test]
fn a_format_index_has_two_parts() {
    let mut formats = LbaFormats::default();
    formats.0[2].lbads = 12;
    formats.0[18].lbads = 9;
    let few = IdentifyNamespace { nlbaf: 3, flbas: 0x22, lbaf: formats, ..IdentifyNamespace::default() };
    assert_eq!((few.format_index(), few.block_size()), (2, Some(4096)));
    let many = IdentifyNamespace { nlbaf: 20, ..few };
    assert_eq!((many.format_index(), many.block_size()), (18, Some(512)));
    assert_eq!(IdentifyNamespace::default().block_size(), None);
}

#[test]
fn lists_are_written_and_read() {
    let mut bytes = [0xff; 4096];
    put_namespace_list(&mut bytes, [1, 2, 9]);
    assert!(read_namespace_list(&bytes).eq([1, 2, 9]));
    put_namespace_list(&mut bytes, 1..5000);
    assert!(read_namespace_list(&bytes).eq(1..=1024));
    put_controller_list(&mut bytes, [3, 0x0104]);
    assert_eq!(&bytes[..8], [2, 0, 3, 0, 4, 1, 0, 0]);
    put_controller_list(&mut bytes, 0..u16::MAX);
    assert_eq!((&bytes[..2], &bytes[4094..]), (&[0xff, 7][..], &[0xfe, 7][..]));
    put_io_command_sets(&mut bytes, &[Csi::NVM]);
    assert_eq!(&bytes[..9], [1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let descriptors = [
        Descriptor::Nguid([1; 16]),
        Descriptor::Uuid([2; 16]),
        Descriptor::Eui64([3; 8]),
        Descriptor::Csi(Csi::NVM),
    ];
    put_descriptors(&mut bytes, &descriptors);
    assert_eq!(&bytes[..4], [2, 16, 0, 0]);
    assert!(Descriptors::new(&bytes).eq(descriptors));
    put_descriptors(&mut bytes, &[Descriptor::Uuid([2; 16]); 300]);
    assert_eq!(Descriptors::new(&bytes).count(), 204);
    put_changed_namespaces(&mut bytes, 1..=1024);
    assert!(read_namespace_list(&bytes).eq(1..=1024));
    put_changed_namespaces(&mut bytes, 1..=1025);
    assert!(read_namespace_list(&bytes).eq([u32::MAX]));
}

#[test]
fn the_ana_page_is_written_and_read() {
    let mut page = vec![0; AnaHeader::LENGTH];
    AnaHeader { chgcnt: 5, ngrps: 2 }.put(&mut page, 0);
    let group = AnaGroup { grpid: 1, nnsids: 0, chgcnt: 5, state: AnaState::OPTIMIZED };
    put_group(&mut page, group, &[1, 2]);
    put_group(&mut page, AnaGroup { grpid: 2, state: AnaState::INACCESSIBLE, ..group }, &[]);
    assert_eq!(page.len(), 16 + 32 + 8 + 32);
    assert_eq!((page[16], page[20], page[24], page[32], page[48]), (1, 2, 5, 1, 1));
    let groups: Vec<_> = read_groups(&page).collect();
    assert_eq!(groups[0], (AnaGroup { nnsids: 2, ..group }, &[[1, 0, 0, 0], [2, 0, 0, 0]][..]));
    assert_eq!(groups[1].0.state, AnaState::INACCESSIBLE);
    assert_eq!(read_groups(&page[..60]).count(), 1);
}

#[test]
fn other_log_pages_lie_where_the_standard_says() {
    let entry = DiscoveryEntry {
        trtype: TransportType::TCP,
        adrfam: AddressFamily::IPV4,
        subtype: DiscoveryType::NVM,
        treq: TransportRequirements::SECURE_CHANNEL_NOT_REQUIRED,
        portid: 1,
        cntlid: 0xffff,
        asqsz: 32,
        eflags: EntryFlags::PERSISTENT_CONNECTIONS,
        trsvcid: Text::new("4420"),
        subnqn: NqnField::new(DISCOVERY_NQN),
        traddr: Text::new("127.0.0.1"),
        sectype: SecureChannel::NONE,
    };
    let mut bytes = [0xff; 1024];
    entry.encode(&mut bytes);
    assert_eq!(&bytes[..12], [3, 1, 2, 2, 1, 0, 0xff, 0xff, 32, 0, 2, 0]);
    assert_eq!((&bytes[32..37], &bytes[512..522]), (&b"4420 "[..], &b"127.0.0.1 "[..]));
    assert_eq!(DiscoveryEntry::decode(&bytes), entry);
    DiscoveryHeader { genctr: 3, numrec: 1, recfmt: 0 }.encode(&mut bytes);
    assert_eq!((bytes[0], bytes[8], &bytes[16..20]), (3, 1, &[0; 4][..]));

    let mut bytes = [0xff; 512];
    let smart = SmartLog { temperature: 300, data_units_read: 1 << 70, ..SmartLog::default() };
    smart.encode(&mut bytes);
    assert_eq!((&bytes[1..3], bytes[40]), (&300u16.to_le_bytes()[..], 64));
    FirmwareSlots { afi: 1, frs1: Text::new("0.1.0") }.encode(&mut bytes);
    assert_eq!((bytes[0], &bytes[8..16]), (1, &b"0.1.0   "[..]));

    let mut bytes = [0; EFFECTS_LENGTH];
    let effects = CommandEffects::SUPPORTED | CommandEffects::BLOCK_CONTENT;
    put_effects(&mut bytes, io_effects(1), effects);
    assert_eq!((bytes[1028], read_effects(&bytes, io_effects(1))), (3, effects));
    assert_eq!(read_effects(&bytes, admin_effects(6)), CommandEffects::empty());
}

proptest! {
    #[test]
    fn any_lists_are_walked_to_an_end(seed in prop::collection::vec(any::<u8>(), 4096)) {
        let bytes: &[u8; 4096] = seed.first_chunk().unwrap();
        prop_assert!(Descriptors::new(bytes).count() <= 1024);
        prop_assert!(read_namespace_list(bytes).count() <= 1024);
        prop_assert!(read_groups(&seed).count() <= 128);
        let controller = IdentifyController::decode(bytes);
        let mut again = [0; 4096];
        controller.encode(&mut again);
        prop_assert_eq!(IdentifyController::decode(&again), controller);
        let namespace = IdentifyNamespace::decode(bytes);
        namespace.encode(&mut again);
        prop_assert_eq!(IdentifyNamespace::decode(&again), namespace);
        let _ = (namespace.block_size(), namespace.metadata_size(), controller.in_capsule_data());
    }

    #[test]
    fn any_name_field_gives_a_name_or_an_error(bytes in prop::collection::vec(any::<u8>(), 256)) {
        let field = NqnField(*bytes.first_chunk().unwrap());
        if let Ok(name) = field.name() {
            let again = NqnField::new(name);
            prop_assert_eq!(again.text(), Ok(name));
        }
        let _ = format!("{field:?}");
    }
}
