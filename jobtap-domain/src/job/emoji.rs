//! Job ids in emoji: numbers in base 576 whose digits are pictures. A picture is easier to recognize among
//! others than a number.

/// The digits, digit 0 first. Each is four bytes of UTF-8 that begin with F0 9F, as Flux requires.
const DIGITS: &str = "😃😄😁😆😅😂😉😊😍😘😚😋😜😝😏😒😌😔😪😷😵😲😳😨\
     😰😥😢😭😱😖😣😞😓😩😫😤😡😠👿💀💩👹👺👻👽👾😺😸\
     😹😻😼😽🙀😿😾🙈🙉🙊💌💘💝💖💗💓💞💕💟💔💛💚💙💜\
     💋💯💢💥💫💦💨💬💤👋👌👈👉👆👇👍👎👊👏🙌👐🙏💅💪\
     👂👃👀👅👄👶👦👧👱👨👩👴👵🙍🙎🙅🙆💁🙋🙇👮💂👷👸\
     👳👲👰👼🎅💆💇🚶🏃💃👯🏂🏄🏊🛀👫💏💑👪👤👣🐵🐒🐶\
     🐩🐺🐱🐯🐴🐎🐮🐷🐗🐽🐑🐫🐘🐭🐹🐰🐻🐨🐼🐾🐔🐣🐤🐥\
     🐦🐧🐸🐢🐍🐲🐳🐬🐟🐠🐡🐙🐚🐌🐛🐜🐝🐞💐🌸💮🌹🌺🌻\
     🌼🌷🌱🌴🌵🌾🌿🍀🍁🍂🍃🍄🍇🍈🍉🍊🍌🍍🍎🍏🍑🍒🍓🍅\
     🍆🌽🌰🍞🍖🍗🍔🍟🍕🍳🍲🍱🍘🍙🍚🍛🍜🍝🍠🍢🍣🍤🍥🍡\
     🍦🍧🍨🍩🍪🎂🍰🍫🍬🍭🍮🍯🍵🍶🍷🍸🍹🍺🍻🍴🔪🌏🗾🌋\
     🗻🏠🏡🏢🏣🏥🏦🏨🏩🏪🏫🏬🏭🏯🏰💒🗼🗽🌁🌃🌄🌅🌆🌇\
     🌉🎠🎡🎢💈🎪🚃🚄🚅🚇🚉🚌🚑🚒🚓🚕🚗🚙🚚🚲🚏🚨🚥🚧\
     🚤🚢💺🚀🕛🕐🕑🕒🕓🕔🕕🕖🕗🕘🕙🕚🌑🌓🌔🌕🌙🌛🌟🌠\
     🌌🌀🌈🌂🔥💧🌊🎃🎄🎆🎇🎈🎉🎊🎋🎍🎎🎏🎐🎑🎀🎁🎫🏆\
     🏀🏈🎾🎳🎣🎽🎿🎯🔫🎱🔮🎮🎰🎲🃏🀄🎴🎭🎨👓👔👕👖👗\
     👘👙👚👛👜👝🎒👞👟👠👡👢👑👒🎩🎓💄💍💎🔊📢📣🔔🎼\
     🎵🎶🎤🎧📻🎷🎸🎹🎺🎻📱📲📞📟📠🔋🔌💻💽💾💿📀🎥🎬\
     📺📷📹📼🔍🔎💡🔦🏮📔📕📖📗📘📙📚📓📒📃📜📄📰📑🔖\
     💰💴💵💸💳💹📧📨📩📤📥📦📫📪📮📝💼📁📂📅📆📇📈📉\
     📊📋📌📍📎📏📐🔒🔓🔏🔐🔑🔨💣🔧🔩🔗📡💉💊🚪🚽🚬🗿\
     🏧🚹🚺🚻🚼🚾🚫🚭🔞🔃🔙🔚🔛🔜🔝🔯🔼🔽🎦📶📳📴💱💲\
     🔱📛🔰🔟🔠🔡🔢🔣🔤🆎🆑🆒🆓🆔🆕🆖🆗🆘🆙🆚🈁🈶🈯🉐\
     🈹🈚🈲🉑🈸🈴🈳🈺🈵🔴🔵🔶🔷🔸🔹🔺🔻💠🔘🔳🔲🏁🚩🎌";

/// The length of each digit in bytes.
const DIGIT_LEN: usize = 4;

/// The number of digits, which is the base.
const BASE: u64 = (DIGITS.len() / DIGIT_LEN) as u64;

/// 576^7 is above 2^64: no id needs more digits.
const MAX_DIGITS: usize = 7;

/// Writes a number in emoji.
pub(super) fn encode(value: u64) -> String {
    let mut rest = value;
    let mut digits = Vec::with_capacity(MAX_DIGITS);
    loop {
        digits.extend(DIGITS.chars().nth((rest % BASE) as usize));
        rest /= BASE;
        if rest == 0 {
            break;
        }
    }
    digits.into_iter().rev().collect()
}

/// Reads a number in emoji, which may need more than 64 bits. `None` if the text is empty, has more than 7
/// digits or any other character.
pub(super) fn decode(text: &str) -> Option<u128> {
    if text.is_empty() || text.len() > MAX_DIGITS * DIGIT_LEN {
        return None;
    }
    let digit = |c: char| DIGITS.chars().position(|known| known == c);
    // At most 7 digits: the number is below 2^65, so this can't overflow.
    let add = |value, c| Some(value * u128::from(BASE) + digit(c)? as u128);
    text.chars().try_fold(0, add)
}

/// Returns true if a text begins like an id in emoji.
pub(super) fn is_emoji(text: &str) -> bool {
    text.as_bytes().starts_with(b"\xf0\x9f")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_digits_are_576_different_emoji_of_four_bytes() {
        let digits: HashSet<char> = DIGITS.chars().collect();
        assert_eq!((BASE, digits.len()), (576, 576));
        assert!(DIGITS.chars().all(|digit| is_emoji(&digit.to_string())));
    }

    #[test]
    fn more_than_7_digits_and_other_characters_are_refused() {
        let last = DIGITS.chars().last().unwrap().to_string();
        assert_eq!(decode(&last.repeat(7)), Some(576u128.pow(7) - 1));
        assert_eq!(decode(&last.repeat(8)), None);
        assert_eq!(decode(&format!("{last}x")), None);
        assert_eq!(decode(""), None);
    }
}
